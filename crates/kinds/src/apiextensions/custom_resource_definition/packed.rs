//! Definitions at rest: their schemas, which are most of them and seldom read, are kept compressed.
//!
//! A schema of more than [`LEAST_BYTES`] stands in the stored document as a text: `deflate:` and the compressed JSON in
//! [base 85](base85). Everything else stands as it is, so names, versions and conditions are read without unpacking anything. Only
//! stored documents look so; a schema in flight is never a text, so the two cannot be mistaken for each other.
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
use sonic_rs::JsonValueTrait as _;

use crate::kind::Problem;

/// What a schema must exceed to be worth it.
const LEAST_BYTES: usize = 4096;
/// The usual level: packing is seldom, and what is packed stays in memory.
const LEVEL: u32 = 6;
const MARK: &str = "deflate:";
/// No document that was taken in is larger.
const MOST_BYTES: u64 = 64 << 20;

/// The document with its large schemas packed.
pub(super) fn pack(json: &[u8]) -> Option<Vec<u8>> {
    let large = |range: &Range<usize>| range.len() > LEAST_BYTES;
    spliced(json, large, |schema| packed(schema.as_bytes()))
}

/// The document with all its schemas in the open; the same one, if they are.
pub(super) fn unpack(json: &Bytes) -> Result<Bytes, Problem> {
    let mut failed = None;
    let is_packed = |range: &Range<usize>| json[range.clone()].starts_with(b"\"deflate:");
    let unpacked = spliced(json, is_packed, |text| match unpacked(text) {
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

/// The schemas of a stored definition by the names of their versions, each as JSON.
pub(crate) fn schema(json: &[u8], version: &str) -> Option<Bytes> {
    let (_, range) = schemas(json).into_iter().find(|(name, _)| name == version)?;
    let text = std::str::from_utf8(&json[range]).ok()?;
    match text.starts_with("\"deflate:") {
        true => unpacked(text).ok().map(Bytes::from),
        false => Some(Bytes::copy_from_slice(text.as_bytes())),
    }
}

/// The document with null for every schema: what there is to know of a definition before its kinds are used.
pub(crate) fn outline(json: &Bytes) -> Bytes {
    let outline = spliced(json, |_| true, |_| b"null".to_vec());
    outline.map_or_else(|| json.clone(), Bytes::from)
}

/// The document with some of its schemas replaced; none, if there are none of these.
fn spliced(
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

/// Where in the document the schemas are, with the names of their versions.
fn schemas(json: &[u8]) -> Vec<(String, Range<usize>)> {
    let Ok(versions) = sonic_rs::get(json, ["spec", "versions"]) else {
        return Vec::new();
    };
    let versions = versions.as_raw_str();
    let found = sonic_rs::to_array_iter(versions).filter_map(|version| {
        let version = version.ok()?;
        let version = version.as_raw_str();
        let name = sonic_rs::get(version, ["name"]).ok()?;
        let schema = sonic_rs::get(version, ["schema", "openAPIV3Schema"]).ok()?;
        let range = within(json, schema.as_raw_str())?;
        Some((name.as_str()?.to_owned(), range))
    });
    found.collect()
}

/// Where a part lies in the whole that it was borrowed from.
fn within(whole: &[u8], part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start + part.len();
    (end <= whole.len()).then_some(start..end)
}

fn packed(schema: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    encoder.write_all(schema).expect("memory takes everything");
    let compressed = encoder.finish().expect("memory takes everything");
    let mut text = format!("\"{MARK}").into_bytes();
    base85::encode(&compressed, &mut text);
    text.push(b'"');
    text
}

fn unpacked(text: &str) -> Result<Vec<u8>, Problem> {
    let broken = |what: String| Problem(format!("a packed schema cannot be read: {what}"));
    let encoded = text.trim_matches('"').strip_prefix(MARK).unwrap_or_default();
    let compressed =
        base85::decode(encoded.as_bytes()).ok_or_else(|| broken("no text in base 85".to_owned()))?;
    let mut schema = Vec::new();
    let mut decoder = DeflateDecoder::new(&compressed[..]).take(MOST_BYTES);
    decoder
        .read_to_end(&mut schema)
        .map_err(|error| broken(error.to_string()))?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(schema: &str) -> Bytes {
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
    fn a_large_schema_is_packed_and_comes_back_as_it_was() {
        let document = document(&large());
        let packed = Bytes::from(pack(&document).unwrap());
        assert!(
            packed.len() * 5 < document.len(),
            "{} of {}",
            packed.len(),
            document.len()
        );
        assert_eq!(unpack(&packed).unwrap(), document);
        assert_eq!(schema(&packed, "v1").unwrap(), large());
        assert_eq!(schema(&packed, "v2"), None);
    }

    #[test]
    fn a_small_schema_stays_as_it_is() {
        let document = document(r#"{"type":"object"}"#);
        assert_eq!(pack(&document), None);
        assert_eq!(unpack(&document).unwrap(), document);
        assert_eq!(schema(&document, "v1").unwrap(), r#"{"type":"object"}"#);
    }

    #[test]
    fn what_cannot_be_unpacked_is_a_problem() {
        let problem = unpack(&document(r#""deflate:~""#)).unwrap_err();
        assert!(
            problem.0.starts_with("a packed schema cannot be read"),
            "{problem}"
        );
    }
}
