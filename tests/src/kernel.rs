//! The running kernel.

use anyhow::{Context, Result};

/// The first two numbers of its release.
pub fn release() -> Result<(u32, u32)> {
    let name = rustix::system::uname();
    let release = name.release().to_str()?;
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(str::parse::<u32>);
    let mut number = || numbers.next().and_then(Result::ok).with_context(|| format!("release {release}"));
    Ok((number()?, number()?))
}
