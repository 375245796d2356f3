//! A gRPC client on hyper's HTTP/2: unary calls, server streams and streams in both directions, over a unix socket, TCP
//! or TLS.
//!
//! What it must never do: retry a call. Whether a call that failed may be repeated is known to the caller alone.
//!
//! Start reading at [`Channel`]. Protocol: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

mod channel;
mod endpoint;
mod frame;
mod message_stream;
mod request_body;
mod status;
mod unary_response;

pub use channel::{Channel, Metadata};
pub use endpoint::Endpoint;
pub use message_stream::{MessageSender, MessageStream};
pub use status::{Code, Status};
