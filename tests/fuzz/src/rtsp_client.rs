//! The reader of what RTSP servers send: no bytes make it panic, and how they are cut makes no difference.

use wirepath_media::rtsp::{
    RESPONSE_BODY_LIMIT, ServerFault, ServerItem, ServerReader, ServerRequest, ServerResponse,
};

/// Feeds `data` whole, and cut into pieces of a size that its first byte gives.
pub fn fuzz(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else { return };
    let whole = read(data, data.len().max(1));
    assert_eq!(read(data, usize::from(piece) + 1), whole, "how the bytes are cut makes a difference");
    let length: usize = whole.items.iter().map(Item::length).sum();
    assert!(length <= data.len(), "{length} bytes of {} were read", data.len());
}

/// Outcome of reading a connection's bytes.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    items: Vec<Item>,
    fault: Option<ServerFault>,
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Response(ServerResponse),
    Request(ServerRequest),
    Frame(u8, Vec<u8>),
}

impl Item {
    fn length(&self) -> usize {
        match self {
            Item::Response(response) => response.body.len(),
            Item::Request(request) => request.method.len(),
            Item::Frame(_, data) => data.len(),
        }
    }
}

fn read(data: &[u8], piece: usize) -> Outcome {
    let mut reader = ServerReader::default();
    let mut items = Vec::new();
    for piece in data.chunks(piece) {
        reader.feed(piece);
        loop {
            match reader.next_item() {
                Ok(Some(ServerItem::Response(response))) => {
                    assert!(response.body.len() <= RESPONSE_BODY_LIMIT);
                    items.push(Item::Response(response));
                }
                Ok(Some(ServerItem::Request(request))) => items.push(Item::Request(request)),
                Ok(Some(ServerItem::Frame { channel, data })) => {
                    assert!(data.len() <= usize::from(u16::MAX));
                    items.push(Item::Frame(channel, data.to_vec()));
                }
                Ok(None) => break,
                Err(fault) => return Outcome { items, fault: Some(fault) },
            }
        }
    }
    Outcome { items, fault: None }
}
