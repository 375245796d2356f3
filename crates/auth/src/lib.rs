//! Who is calling, and may they: two questions, two traits.
//!
//! [`Authenticate`] turns what a caller shows into a [`User`](setpoint_api::User); [`Authorize`] says whether that user
//! may do what is asked. Both answer from memory: nothing here waits, speaks HTTP or writes. A rule that must look at
//! the object itself is admission, not authorization.
//!
//! Start reading at [`authenticate`], then [`authorize`].

pub mod authenticate;
pub mod authorize;
pub mod impersonate;

pub use authenticate::{Authenticate, Credentials, Unauthenticated};
pub use authorize::{Attributes, Authorize, Decision};
