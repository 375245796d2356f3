//! Compression of stored CRDs: their schemas, which are most of their bytes and seldom read, are stored compressed.
//!
//! A schema of more than [`MIN_BYTES`] is stored as a string: `deflate:` and the compressed JSON in [base 85](base85).
//! All other fields are stored as they are, so names, versions and conditions are read without decompressing anything. Only
//! stored CRDs have this form: in a request a schema is never a string, so the two forms cannot be confused.
//!
//! ```text
//! {"kind":"CustomResourceDefinition",...,"versions":[{"name":"v1",...,"schema":{"openAPIV3Schema":"deflate:<%yBp..."}}]}
//! ```

mod base85;

use std::io::{Read, Write};
use std::ops::Range;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::kind::InvalidObject;

/// Schemas of at most this size are not compressed.
const MIN_BYTES: usize = 4096;
/// The default level of deflate: a CRD is compressed seldom, and the result stays in memory.
const LEVEL: u32 = 6;
const MARK: &str = "deflate:";
/// The limit of a decompressed schema; no request body is larger.
const MAX_BYTES: u64 = 64 << 20;

/// The CRD's JSON with its large schemas compressed; `None` if there are none.
pub fn compress(json: &[u8]) -> Option<Vec<u8>> {
    let large = |range: &Range<usize>| range.len() > MIN_BYTES;
    replace_schemas(json, large, |schema| compressed(schema.as_bytes()))
}

/// The CRD's JSON with all schemas decompressed; the same bytes if none is compressed.
pub fn decompress(json: &Bytes) -> Result<Bytes, InvalidObject> {
    let mut failed = None;
    let is_packed = |range: &Range<usize>| json[range.clone()].starts_with(b"\"deflate:");
    let unpacked = replace_schemas(json, is_packed, |text| match decompressed(text) {
        Ok(schema) => schema,
        Err(problem) => {
            failed = Some(problem);
            Vec::new()
        }
    });
    match failed {
        Some(problem) => Err(problem),
        None => Ok(unpacked.map_or_else(|| json.clone(), Bytes::from)),
    }
}

/// The JSON schema of one version of a stored CRD.
pub(super) fn schema(json: &[u8], version: &str) -> Option<Bytes> {
    let (_, range) = schemas(json).into_iter().find(|(name, _)| name == version)?;
    let text = std::str::from_utf8(&json[range]).ok()?;
    match text.starts_with("\"deflate:") {
        true => decompressed(text).ok().map(Bytes::from),
        false => Some(Bytes::copy_from_slice(text.as_bytes())),
    }
}

/// The CRD's JSON with null for every schema: all that is needed until one of its kinds is used.
pub(super) fn outline(json: &Bytes) -> Bytes {
    let outline = replace_schemas(json, |_| true, |_| b"null".to_vec());
    outline.map_or_else(|| json.clone(), Bytes::from)
}

/// The CRD's JSON with some schemas replaced; `None` if nothing is replaced.
fn replace_schemas(
    json: &[u8],
    mut is_one: impl FnMut(&Range<usize>) -> bool,
    mut replace: impl FnMut(&str) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let mut ranges: Vec<Range<usize>> = schemas(json).into_iter().map(|(_, range)| range).collect();
    ranges.retain(&mut is_one);
    if ranges.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(json.len());
    let mut done = 0;
    for range in ranges {
        out.extend_from_slice(&json[done..range.start]);
        let schema = std::str::from_utf8(&json[range.clone()]).ok()?;
        out.extend(replace(schema));
        done = range.end;
    }
    out.extend_from_slice(&json[done..]);
    Some(out)
}

/// A CRD as far as its schemas, which stay raw.
#[derive(Deserialize)]
struct RawCrd<'a> {
    #[serde(borrow)]
    spec: RawSpec<'a>,
}

#[derive(Deserialize)]
struct RawSpec<'a> {
    #[serde(borrow)]
    versions: Vec<RawVersion<'a>>,
}

#[derive(Deserialize)]
struct RawVersion<'a> {
    name: String,
    #[serde(borrow, default)]
    schema: RawSchema<'a>,
}

#[derive(Default, Deserialize)]
struct RawSchema<'a> {
    #[serde(borrow, rename = "openAPIV3Schema", default)]
    schema: Option<&'a RawValue>,
}

/// The byte ranges of the schemas, each with the name of its version.
fn schemas(json: &[u8]) -> Vec<(String, Range<usize>)> {
    let Ok(crd) = serde_json::from_slice::<RawCrd<'_>>(json) else {
        return Vec::new();
    };
    let found = crd.spec.versions.into_iter().filter_map(|version| {
        let range = byte_range(json, version.schema.schema?.get())?;
        Some((version.name, range))
    });
    found.collect()
}

/// The byte range of a slice borrowed from `whole`.
fn byte_range(whole: &[u8], part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start + part.len();
    (end <= whole.len()).then_some(start..end)
}

fn compressed(schema: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    encoder
        .write_all(schema)
        .expect("writing to memory does not fail");
    let compressed = encoder.finish().expect("writing to memory does not fail");
    let mut text = format!("\"{MARK}").into_bytes();
    base85::encode(&compressed, &mut text);
    text.push(b'"');
    text
}

fn decompressed(text: &str) -> Result<Vec<u8>, InvalidObject> {
    let broken = |what: String| InvalidObject::Malformed(format!("a packed schema cannot be read: {what}"));
    let encoded = text.trim_matches('"').strip_prefix(MARK).unwrap_or_default();
    let compressed =
        base85::decode(encoded.as_bytes()).ok_or_else(|| broken("no text in base 85".to_owned()))?;
    let mut schema = Vec::new();
    let mut decoder = DeflateDecoder::new(&compressed[..]).take(MAX_BYTES);
    decoder
        .read_to_end(&mut schema)
        .map_err(|error| broken(error.to_string()))?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd_json(schema: &str) -> Bytes {
        Bytes::from(format!(
            r#"{{"metadata":{{"annotations":{{"openAPIV3Schema":"deflate:x"}}}},"spec":{{"versions":[{{"name":"v1","schema":{{"openAPIV3Schema":{schema}}}}},{{"name":"v2"}}]}}}}"#
        ))
    }

    fn large() -> String {
        let property =
            |i: usize| format!(r#""field{i}":{{"type":"string","description":"What field {i} is for."}}"#);
        let properties: Vec<String> = (0..500).map(property).collect();
        format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","))
    }

    #[test]
    fn a_large_schema_is_compressed_and_decompressed_unchanged() {
        let crd_json = crd_json(&large());
        let packed = Bytes::from(compress(&crd_json).unwrap());
        assert!(
            packed.len() * 5 < crd_json.len(),
            "{} of {}",
            packed.len(),
            crd_json.len()
        );
        assert_eq!(decompress(&packed).unwrap(), crd_json);
        assert_eq!(schema(&packed, "v1").unwrap(), large());
        assert_eq!(schema(&packed, "v2"), None);
    }

    #[test]
    fn a_small_schema_stays_as_it_is() {
        let crd_json = crd_json(r#"{"type":"object"}"#);
        assert_eq!(compress(&crd_json), None);
        assert_eq!(decompress(&crd_json).unwrap(), crd_json);
        assert_eq!(schema(&crd_json, "v1").unwrap(), r#"{"type":"object"}"#);
    }

    #[test]
    fn a_corrupt_compressed_schema_is_an_error() {
        let problem = decompress(&crd_json(r#""deflate:~""#)).unwrap_err();
        assert!(
            problem.to_string().starts_with("a packed schema cannot be read"),
            "{problem}"
        );
    }
}
