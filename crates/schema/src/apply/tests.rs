//! Apply as a whole: rows, the recorded answers of the reference server, and properties over random shapes.

mod custom;
mod property;
mod replay;
mod rows;
