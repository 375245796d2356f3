//! The words of the API: what an object, a key, a request, an answer and an error are.
//!
//! Every other crate speaks in these words, and the two sides of the port meet in one of them: [`Serve`], a request
//! in, an answer out. There is no I/O here, no task, and no kind is named.
//!
//! Start reading at [`call`], then [`object`].

pub mod call;
pub mod change;
pub mod clock;
pub mod field;
pub mod gvk;
pub mod key;
pub mod name;
pub mod object;
pub mod options;
pub mod quantity;
pub mod selector;
pub mod status;
pub mod table;
pub mod user;
pub mod version;

pub use call::{Body, List, Payload, Reply, Request, Response, Serve, Target, Verb, Watch};
pub use change::{Bookmark, Change, Event};
pub use clock::{Clock, SystemClock};
pub use gvk::{GroupResource, Gvk, Gvr};
pub use key::Key;
pub use object::{Header, Stored};
pub use quantity::Quantity;
pub use status::Status;
pub use user::User;
pub use version::ResourceVersion;
