//! Receiving from a connection that mostly waits.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes read at a time.
const READ_SIZE: usize = 4096;

/// Passes on the next bytes; returns their length, 0 at the end. The buffer is not kept while this waits,
/// since most of thousands of connections wait. After a short read the socket is empty, so there is no second
/// call. A client whose bytes never end delays other tasks only until its task's budget is used up.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    take: impl FnOnce(&[u8]),
) -> io::Result<usize> {
    let mut take = Some(take);
    poll_fn(|context| {
        poll_read(stream, context, |bytes| take.take().into_iter().for_each(|take| take(bytes)))
    })
    .await
}

/// The same as a poll, for a future with no room for the closure that takes the bytes.
pub(super) fn poll_read(
    stream: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    take: impl FnOnce(&[u8]),
) -> Poll<io::Result<usize>> {
    let mut bytes = [MaybeUninit::uninit(); READ_SIZE];
    let mut buffer = ReadBuf::uninit(&mut bytes);
    ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
    take(buffer.filled());
    Poll::Ready(Ok(buffer.filled().len()))
}
