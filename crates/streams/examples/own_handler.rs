//! A handler of one's own: lets lines pass that contain a word, and counts them. What passes is not copied.

use wirepath_streams::{Common, Handler, HandlerError, Piece, Reach, Read, Verdict};

/// Lets lines pass that contain a word.
pub struct Containing {
    word: Vec<u8>,
    passed: u64,
}

impl Common for Containing {
    fn name(&self) -> &'static str {
        "containing"
    }

    // A word may lie across two pieces of a line, so this handler needs whole lines. The limit bounds what is
    // kept for it.
    fn reach(&self) -> Reach {
        Reach::Records { limit: 64 * 1024 }
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("passed", self.passed)]
    }
}

impl Read for Containing {
    fn read(&mut self, line: Piece<'_>) -> Result<Verdict, HandlerError> {
        let is_there = line.bytes.windows(self.word.len()).any(|window| window == self.word);
        self.passed += u64::from(is_there);
        Ok(if is_there { Verdict::Pass } else { Verdict::Drop })
    }
}

/// `grep` as a stream: standard input, lines, to standard output.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use wirepath_streams::{Framing, Object, StreamBuilder};
    let word = std::env::args().nth(1).ok_or("usage: own_handler WORD")?.into_bytes();
    if word.is_empty() {
        return Err("the word is empty".into());
    }
    let input =
        Object::stream("standard input", std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?)?;
    let output = Object::stream(
        "standard output",
        std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?,
    )?;
    let mut stream = StreamBuilder::default()
        .handler(Handler::Read(Box::new(Containing { word, passed: 0 })))
        .input(input, Framing::lines(64 * 1024))
        .output(output)
        .build();
    stream.run()?;
    eprintln!("{:?}", stream.status().reports);
    Ok(())
}
