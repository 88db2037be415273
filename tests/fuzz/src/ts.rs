//! Transport streams: whatever the file, packing refuses it or makes an image that the reader accepts, and
//! how the file is read makes no difference.
//!
//! The first byte chooses the packet size, the second the length of the pieces; the rest is the file.

use wirepath_media::image::{
    Header, Identity, Layout, PAGE, Plan, Recipe, StreamPlan, Table, Writer, copy_payload,
};
use wirepath_media::inspect::AssetInspector;
use wirepath_media::pack::{Error, Packer, estimate};

/// The target.
pub fn fuzz(data: &[u8]) {
    let [size, piece, asset @ ..] = data else { return };
    let recipe = Recipe::transport_stream(1 + u16::from(size % 8), 20_000);
    let identity = Identity { size: asset.len() as u64, mtime_ns: 0, inode: 0, device: 0 };
    let plan =
        Plan { identity, recipe, streams: StreamPlan::transport_stream(7, 65_000, u32::MAX - 90_000).into() };
    let in_pieces = pack(asset, plan, Layout::Image, usize::from(*piece) + 1);
    let at_once = pack(asset, plan, Layout::Image, asset.len().max(1));
    assert_eq!(in_pieces, at_once, "how the file is read makes a difference");
    if let Ok(index) = pack(asset, plan, Layout::Index, asset.len().max(1)) {
        read(&index);
    }
    inspect(asset, recipe);
    look_ahead(asset, usize::from(*piece) * 16);
    if let Ok(image) = at_once {
        read(&image);
    }
}

fn pack(asset: &[u8], plan: Plan, layout: Layout, piece: usize) -> Result<Vec<u8>, Error> {
    let mut packer = Packer::new(plan).expect("a plan that can be followed");
    let (mut image, mut writer) = (vec![0; PAGE as usize], Writer::new(plan, layout));
    let mut write = |packer: &mut Packer| {
        while let Some(segment) = packer.pop() {
            let written = writer.add(&segment, copy_payload(asset)).expect("copying does not fail");
            image.resize(written.entry.offset as usize, 0);
            image.extend(written.bytes);
        }
    };
    for bytes in asset.chunks(piece) {
        packer.push(bytes)?;
        write(&mut packer);
    }
    let end = packer.finish()?;
    write(&mut packer);
    let summary = writer.finish(end);
    image.resize(summary.header.table.offset as usize, 0);
    image.extend(&summary.table_bytes);
    image[..PAGE as usize].copy_from_slice(&summary.header.encode());
    Ok(image)
}

fn read(image: &[u8]) {
    let header = Header::decode(&image[..PAGE as usize], image.len() as u64).expect("a right header");
    let table = Table::decode(&image[header.table.offset as usize..], &header).expect("a right table");
    for (index, entry) in table.segments.iter().enumerate() {
        let bytes = &image[entry.offset as usize..][..entry.length() as usize];
        let trains = entry.trains(&header.plan, table.until_us(index, &header), bytes).expect("right trains");
        for start in table.starts.iter().filter(|start| start.segment as usize == index) {
            assert!(trains[start.train as usize].start, "a start that is not marked");
        }
    }
}

fn inspect(asset: &[u8], recipe: Recipe) {
    let mut inspector = AssetInspector::new(recipe).expect("a recipe that can be followed");
    if inspector.push(asset).is_ok()
        && let Ok(report) = inspector.finish()
    {
        assert!(report.starts_us.is_sorted(), "starts out of order");
    }
}

fn look_ahead(asset: &[u8], length: usize) {
    let length = length.min(asset.len());
    let (head, tail) = (&asset[..length], &asset[asset.len() - length..]);
    if let Ok(estimate) = estimate(head, tail, asset.len() as u64) {
        assert!(estimate.duration_us.is_none() || estimate.description.played.is_some());
    }
}
