//! Other TCP relays, each configured in a temporary folder according to its manual.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::measured_process::MeasuredProcess;
use crate::error::{Doing, Error};
use crate::programs;
use crate::subject::Program;

/// Folder of nginx' modules on Debian and Ubuntu.
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

impl Program {
    /// Path of the program.
    pub(crate) fn find(self) -> Result<PathBuf, Error> {
        programs::find(self.name()).ok_or_else(|| {
            let package = if self == Program::Nginx { "nginx libnginx-mod-stream" } else { self.name() };
            Error::Unable(format!("it is not installed: apt-get install {package}"))
        })
    }

    /// Starts the program as a relay of connections from `listen` to `backend`; its files are in `folder`.
    pub(crate) fn start(
        self,
        listen: IpAddr,
        backend: SocketAddr,
        folder: &Path,
    ) -> Result<MeasuredProcess, Error> {
        let mut command = Command::new(self.find()?);
        let port = free_port(listen)?;
        let front = SocketAddr::new(listen, port);
        match self {
            Program::HaProxy => {
                let file = folder.join("haproxy.cfg");
                write(&file, &haproxy(front, backend))?;
                command.args(["-db", "-q", "-f"]).arg(&file);
            }
            Program::Nginx => {
                let file = folder.join("nginx.conf");
                write(&file, &nginx(front, backend, Path::new(NGINX_STREAM).is_file()))?;
                command.arg("-p").arg(folder).arg("-c").arg(&file).args(["-e", "stderr"]);
            }
            Program::Socat => {
                let listen = format!("TCP-LISTEN:{port},bind={listen},fork,reuseaddr,backlog=1024");
                command.args([listen, format!("TCP:{backend}")]);
            }
        }
        MeasuredProcess::program(self.name(), &command, port)
    }
}

fn free_port(address: IpAddr) -> Result<u16, Error> {
    let listener = TcpListener::bind((address, 0)).doing("looking for a free port")?;
    Ok(listener.local_addr().doing("looking for a free port")?.port())
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).map_err(|error| Error::of_file("write", file, error))
}

fn haproxy(front: SocketAddr, backend: SocketAddr) -> String {
    format!(
        "global
    nbthread 1
    maxconn 4096
defaults
    mode tcp
    option splice-request
    option splice-response
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen relay
    bind {front}
    server backend {backend}
"
    )
}

fn nginx(front: SocketAddr, backend: SocketAddr, has_module: bool) -> String {
    let module = if has_module { format!("load_module {NGINX_STREAM};\n") } else { String::new() };
    format!(
        "{module}daemon off;
master_process off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
stream {{
    server {{
        listen {front};
        proxy_pass {backend};
    }}
}}
"
    )
}
