//! Stored pictures and queries for them: no bytes make their readers panic, no extent of a picture or of its overviews
//! lies outside its file, and what is made has the header and the length that were announced.

use std::io;

use wirepath_images::{
    Picture, PictureError, Plan, PlanError, Question, Transformation, find_overviews, open_overview,
    open_picture,
};

/// Extents of a part that are looked at.
const LOOKED_AT: usize = 1000;

/// Takes a query up to the first NUL, and a file.
pub fn fuzz(data: &[u8]) {
    let middle = data.iter().position(|&byte| byte == 0).unwrap_or(0);
    let (query, file) = data.split_at(middle);
    let file = file.get(1..).unwrap_or_default();
    let size = file.len() as u64;
    let read = |bytes: &mut [u8], at: u64| {
        let found = usize::try_from(at).ok().and_then(|at| file.get(at..at.checked_add(bytes.len())?));
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    let Some(picture) = unless_refused(open_picture(size, read)) else { return };
    let whole = Transformation::default();
    check_plan(&picture, &whole, Plan::new(&picture, &whole), size);
    let query = String::from_utf8_lossy(query);
    let steps = match Question::parse(&query) {
        Ok(Question::Transformed(steps)) => steps,
        _ => return,
    };
    check_plan(&picture, &steps, Plan::new(&picture, &steps), size);
    // Of each overview, also of one that would not be the source.
    let overviews = unless_refused(find_overviews(size, read, &picture)).unwrap_or_default();
    for damaged in &overviews.damaged {
        assert!(!damaged.error.to_string().is_empty());
    }
    let overviews = overviews.usable;
    for overview in &overviews {
        if let Some(source) = unless_refused(open_overview(size, read, overview)) {
            check_plan(&source, &steps, Plan::of_overview(&picture, &steps, overview, &source), size);
        }
    }
    if let Some(chosen) = steps.source(&overviews) {
        assert!(overviews.contains(chosen) && steps.overviews);
    }
}

/// The result, or none if it was refused with a reason.
fn unless_refused<T>(read: Result<T, PictureError>) -> Option<T> {
    read.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}

/// Checks a plan for an answer from `source`.
fn check_plan(source: &Picture, steps: &Transformation, plan: Result<Plan, PlanError>, size: u64) {
    let Ok(plan) = plan else {
        return assert!(steps.scale.is_some() || steps.crop.is_some());
    };
    let extents = source.extents(plan.part()).take(LOOKED_AT);
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
    for handler in plan.handlers(source) {
        assert!(handler.state_bytes() <= handler.state_limit());
    }
}
