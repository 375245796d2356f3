//! SPDY/3.1, as far as Kubernetes' streaming protocols use it: streams that the client opens, with headers.
//!
//! As in the library that all Kubernetes clients with SPDY use, there is no flow control: WINDOW_UPDATE frames are ignored
//! and none are sent. [`FrameReader`] and [`FrameWriter`] do no I/O; `connection.rs` runs a connection.

mod connection;
mod dictionary;
mod header_block;
mod reader;
mod writer;

pub(crate) use connection::{IncomingStream, run};
pub use header_block::{BlockReader, BlockWriter, HeaderBlock};
pub use reader::{Event, FrameReader, ProtocolError};
pub use writer::FrameWriter;

/// Types of control frames.
mod control {
    pub(super) const SYN_STREAM: u16 = 1;
    pub(super) const SYN_REPLY: u16 = 2;
    pub(super) const RST_STREAM: u16 = 3;
    pub(super) const SETTINGS: u16 = 4;
    pub(super) const PING: u16 = 6;
    pub(super) const GOAWAY: u16 = 7;
    pub(super) const HEADERS: u16 = 8;
    pub(super) const WINDOW_UPDATE: u16 = 9;
}

/// The version in control frames, of SPDY/3 and SPDY/3.1.
const VERSION: u16 = 3;
/// The flag of a frame after which its sender sends nothing more on the stream.
const FLAG_FIN: u8 = 1;
