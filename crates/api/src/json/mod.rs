//! JSON of serde types that compiles small.
//!
//! A type with serde's traits is compiled again for each format that it is read from and written to. `serde_json` puts
//! its whole grammar into each of those copies, and the types of Kubernetes are many and large: they are most of the
//! build time of a controller. Here all that does not depend on the type (whitespace, strings, numbers, commas) is in
//! functions without type parameters; what is left for each type are calls of them.
//!
//! The reader accepts the JSON that `serde_json` accepts, with two exceptions: a struct is always an object, never an
//! array, and `RawValue` is not read. A type cannot borrow its strings from the JSON. The writer writes the same bytes as `serde_json`. Errors are those of `serde_json`; of
//! several errors it may report another one: invalid UTF-8 is found first, and an invalid escape has its position in the
//! string.

mod reader;
mod tokens;
mod writer;

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::de::DeserializeOwned;

use reader::Reader;
use writer::Writer;

/// The name of the struct as which `RawValue` of `serde_json` serializes itself.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Reads a value from JSON.
///
/// ```
/// let names: Vec<String> = setpoint_api::json::from_slice(br#"["web-1", "web-2"]"#)?;
/// assert_eq!(names, ["web-1", "web-2"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    let mut reader = Reader::new(json)?;
    let value = T::deserialize(&mut reader).map_err(|error| reader.locate(error))?;
    reader.finish().map(|()| value)
}

/// Writes a value as JSON without whitespace.
///
/// ```
/// assert_eq!(setpoint_api::json::to_vec(&Some(["web-1"]))?, br#"["web-1"]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut writer = Writer::new();
    value.serialize(&mut writer)?;
    Ok(writer.into_bytes())
}
