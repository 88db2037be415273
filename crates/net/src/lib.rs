//! Network services shared by server and relay: listeners, limits on clients, authentication, HTTP
//! connections, metrics and status.
//!
//! A [`Site`](http::Site) answers requests, and a [`program`] serves it until a signal:
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use clap::Parser;
//! use http::StatusCode;
//! use wirepath_http::{AssetPath, BodyPart, Request, Response};
//! use wirepath_net::http::{Answer, Endpoint, Site};
//! use wirepath_net::program::{self, Service, ServiceOptions, announce};
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     service: ServiceOptions, // --http ADDRESS:PORT and others
//! }
//!
//! struct Hello(Endpoint);
//!
//! impl Site for Hello {
//!     type Admission = ();
//!
//!     async fn answer(&self, path: AssetPath, _request: Request, _client: (SocketAddr, ())) -> Answer {
//!         match self.0.find(&path).await {
//!             Some(metrics_or_status) => metrics_or_status,
//!             None => {
//!                 let body = vec![BodyPart::Bytes(b"hello\n".to_vec())];
//!                 Response::with_body(StatusCode::OK, "text/plain", body).into()
//!             }
//!         }
//!     }
//! }
//!
//! fn main() {
//!     let arguments = Arguments::parse();
//!     program::run("hello", |draining| async move {
//!         let Service { engine, listener, socket, endpoint, .. } = arguments.service.start()?;
//!         announce(&format!("http=http://{}/", socket.local_addr()?))?;
//!         listener.serve(socket, Hello(endpoint), engine, draining).await;
//!         std::io::Result::Ok(())
//!     })
//! }
//! ```

pub mod auth;
pub mod confinement;
mod descriptors;
pub mod folder;
pub mod handed_sockets;
pub mod handover;
pub mod http;
mod keepalive;
mod limits;
mod listener;
pub mod loans;
mod log_limit;
pub mod metrics;
pub mod privileges;
pub mod process;
pub mod program;
mod reserved_listener;
mod runtime_threads;
mod secret_file;
pub mod status;
pub mod tls;

pub use descriptors::{DescriptorBudget, DescriptorPermit, is_out_of_descriptors, raise_descriptor_limit};
pub use keepalive::expect_acknowledgements;
pub use limits::{ClientLimits, Exceeded, Permit, client as counted_address};
pub use listener::{Addresses, Listen, any_address, bind, explain_bind_error, is_privileged, serve};
pub use log_limit::LogLimit;
pub use reserved_listener::ReservedListener;
pub use runtime_threads::RuntimeThreads;
