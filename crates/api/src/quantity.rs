//! Quantities: amounts of things like memory and processor time.

/// An amount, exact to the thousandth millionth, with the family of suffixes it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity;
