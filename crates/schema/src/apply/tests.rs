//! Server-side apply as a whole: rows, the recorded responses of the reference server, and properties over random schemas.

mod custom;
mod new_object;
mod property;
mod replay;
mod rows;
