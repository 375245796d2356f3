//! Logs of containers: the files that a container runtime writes, and their rotation.
//!
//! A line of a file is `<time> <stdout|stderr> <F|P> <text>`, the format of the Container Runtime Interface; `P` is a piece
//! of a longer line. A simulated container has no file: its log is a text.
//!
//! Start reading at [`LogSource::open`].

mod entry;
mod filter;
mod reader;
pub mod rotation;
mod tail;

pub use entry::{Entry, Stream};
pub use filter::LogOptions;
pub use reader::{FollowState, LogReader, LogSource};
