//! Engine: threads that run tasks and never block.
//!
//! An [`Engine`] has a number of threads, each with an epoll instance, a timer wheel, a mailbox and a
//! scheduler. A [`Task`] stays on its thread from [`Engine::spawn`] to its end. The thread calls the task
//! when a descriptor is ready, when its timer is due, when a command arrives through its [`Handle`], and when
//! the scheduler gives it a turn. Work that may block runs on the engine's [`BlockingPool`].
//!
//! The engine is independent of protocols. Streams (`wirepath-streams`) are tasks that share their thread in
//! turns. The playbacks of a thread (`wirepath-playback`) are a single task, driven by its timer.
//!
//! ```
//! use std::sync::mpsc::{Sender, channel};
//! use wirepath_engine::{Context, Cost, Engine, EngineOptions, Placement, Task};
//!
//! /// Counts its turns, and ends after the third.
//! struct ThreeTurns {
//!     taken: u64,
//!     ended: Sender<u64>,
//! }
//!
//! impl Task for ThreeTurns {
//!     fn start(&mut self, context: &mut Context<'_>) {
//!         context.request_turn();
//!     }
//!
//!     fn turn(&mut self, _allowance: u64, context: &mut Context<'_>) -> Cost {
//!         self.taken += 1;
//!         if self.taken == 3 { context.end() } else { context.request_turn() }
//!         Cost::from(1)
//!     }
//!
//!     fn end(self: Box<Self>, _pool: &wirepath_engine::BlockingPool) {
//!         self.ended.send(self.taken).ok();
//!     }
//! }
//!
//! let engine = Engine::start(EngineOptions::default())?;
//! let (ended, end) = channel();
//! engine.spawn(Box::new(ThreeTurns { taken: 0, ended }), Placement::default());
//! assert_eq!(end.recv(), Ok(3));
//! # Ok::<(), std::io::Error>(())
//! ```

mod blocking_pool;
mod clock;
mod counters;
mod engine;
mod mailbox;
mod panic;
mod scheduler;
mod sharing;
mod stall;
mod task;
mod timer_wheel;
mod worker;

pub use blocking_pool::{BlockingPool, DropOnPool, Job, Priority};
pub use clock::now_us;
pub use counters::{Counters, LoadUnit};
pub use engine::{Engine, EngineOptions, Placement};
pub use mailbox::{Handle, Waker};
pub use panic::catch_panic;
pub use scheduler::{Class, Cost, CustomPolicy, Policy, Rate, ReadyClass, ReadyClasses, Round, TurnPolicy};
pub use sharing::Sharing;
pub use stall::{STALL_SAMPLES, StallDetector};
pub use task::{Context, Event, Task, Watcher};
pub use timer_wheel::{TICK_US, TimerWheel};
pub use worker::TURN_BYTES;
