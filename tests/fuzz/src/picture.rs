//! Stored pictures and queries for them: no bytes make their readers panic, no extent of a picture lies outside its
//! file, and what is made has the header and the length that were announced.

use std::io;

use wirepath_images::{Picture, PictureError, Plan, Question, Transformation, open_picture};

/// Extents of a part that are looked at.
const LOOKED_AT: usize = 1000;

/// Takes a query up to the first NUL, and a file.
pub fn fuzz(data: &[u8]) {
    let middle = data.iter().position(|&byte| byte == 0).unwrap_or(0);
    let (query, file) = data.split_at(middle);
    let file = file.get(1..).unwrap_or_default();
    let picture = match open(file) {
        Ok(picture) => picture,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    check_part(&picture, &Transformation::default(), file.len() as u64);
    let query = String::from_utf8_lossy(query);
    if let Ok(Question::Transformed(steps)) = Question::parse(&query) {
        check_part(&picture, &steps, file.len() as u64);
    }
}

fn open(file: &[u8]) -> Result<Picture, PictureError> {
    open_picture(file.len() as u64, |bytes, at| {
        let found = usize::try_from(at).ok().and_then(|at| file.get(at..at.checked_add(bytes.len())?));
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    })
}

fn check_part(picture: &Picture, steps: &Transformation, size: u64) {
    let part = steps.crop.unwrap_or(picture.whole());
    let Ok(plan) = Plan::new(picture, steps) else {
        return assert!(steps.scale.is_some() || !picture.holds(part));
    };
    let extents = picture.extents(part).take(LOOKED_AT);
    for extent in extents {
        assert!(extent.start < extent.end && extent.end <= size, "{extent:?} of {size} bytes");
    }
    let header = plan.header();
    let made = open_picture(header.len() as u64 + plan.bytes(), |bytes, _| {
        bytes.fill(0);
        let length = header.len().min(bytes.len());
        bytes[..length].copy_from_slice(&header[..length]);
        Ok(())
    });
    assert_eq!(made.expect("a header of our own").samples, plan.samples());
    // Handlers are made, and take a piece.
    for handler in plan.handlers(picture) {
        assert!(handler.state_bytes() <= handler.state_limit());
    }
}
