//! What tests of several crates share: objects in few words, and a whole cluster in the test's own process.
//!
//! There is no fake server here: a test runs against the real registry, on a store in memory and on a clock that
//! stands still. Only tests may depend on this crate.
//!
//! [`cluster`] is all of it in one line, [`served`] puts a real port before it, and [`faults`] a line that goes wrong.
//!
//! Start reading at [`cluster`], then [`builders`].

#![warn(missing_docs)]

pub mod builders;
pub mod clock;
pub mod cluster;
pub mod crash;
mod define;
pub mod diary;
pub mod disorder;
pub mod extension;
pub mod faults;
pub mod link;
pub mod mirror;
pub mod part;
pub mod portrait;
pub mod program;
pub mod quiet;
pub mod served;

pub use builders::{config_map, deployment, namespace, node, pod, service, set};
pub use clock::SteppedClock;
pub use cluster::Cluster;
pub use crash::{Crash, Moment};
pub use diary::Diary;
pub use disorder::Disorder;
pub use extension::Extension;
pub use link::{Call, Link};
pub use mirror::Mirror;
pub use part::{Part, RunningPart};
pub use program::{Program, Up};
pub use quiet::StillBusy;
pub use served::Served;
