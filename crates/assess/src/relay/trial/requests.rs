//! Runs of clients that request one file after the other.

use std::net::SocketAddr;
use std::time::Instant;

use super::{Outcome, Trials, complete, run, shape};
use crate::error::Error;
use crate::relay::requests::{Backend, Client, Requests};
use crate::relay::source::Volume;
use crate::result::{Part, RelayCase};
use crate::sockets;

impl Trials<'_> {
    pub(super) fn requests(
        &mut self,
        case: &RelayCase,
        volume: Volume,
        keep: bool,
    ) -> Result<Outcome, Error> {
        let size = case.unit();
        let requests = Requests { number: volume.bytes_each / size, size };
        let links = case.links as usize;
        let files = if case.part == Part::Files { vec![self.file(size)?] } else { Vec::new() };
        let backend = match case.part {
            Part::FileProxy => Some(Backend::start(self.test_bed, &self.pattern, links, size)?),
            _ => None,
        };
        let address = backend.as_ref().map(|backend| backend.address);
        let mut side = self.side(case, shape(case, &files), address)?;
        let to = SocketAddr::new(self.test_bed.near_address()?, side.port);
        let clients =
            (0..links).map(|_| Client::connect(self.test_bed, to)).collect::<Result<Vec<_>, Error>>()?;
        side.wait_ready()?;
        let (before, start) = (side.spent()?, Instant::now());
        side.go()?;
        let clients = clients
            .into_iter()
            .map(|client| client.start(self.test_bed, requests, keep))
            .collect::<Result<Vec<_>, Error>>()?;
        let answers = clients
            .into_iter()
            .map(|client| sockets::join(client, "a client"))
            .collect::<Result<Vec<_>, Error>>()?;
        side.wait_done()?;
        let used = side.spent()?;
        drop(side); // closes its connections to the server behind it
        backend.map_or(Ok(()), Backend::finish)?;
        let ended = answers.iter().map(|answers| answers.ended).max().unwrap_or(start);
        let counts: Vec<u64> = answers.iter().map(|answers| answers.bytes).collect();
        complete(case, volume, &counts)?;
        let bytes = volume.bytes_each * volume.busy as u64;
        let run = run(before, used, ended - start, bytes, counts.iter().sum());
        let contents = answers.into_iter().map(|answers| answers.content).collect();
        Ok(Outcome { run, volume, contents })
    }
}
