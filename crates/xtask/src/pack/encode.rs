//! Encodes the published data as a pack.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::source::{Field, GroupVersion, Source, Type};

const MAGIC: &[u8] = b"SPPK\x01";

const SCALARS: [&str; 15] = [
    "string",
    "bool",
    "int32",
    "int64",
    "double",
    "bytes",
    "time",
    "microtime",
    "duration",
    "quantity",
    "intorstring",
    "rawjson",
    "schemaorbool",
    "schemaorarray",
    "schemaorstrings",
];

const SPECIALS: [&str; 10] = [
    "time",
    "microtime",
    "timestamp",
    "duration",
    "quantity",
    "intorstring",
    "rawjson",
    "schemaorbool",
    "schemaorarray",
    "schemaorstrings",
];

/// The whole pack. The same source always gives the same bytes.
pub(super) fn pack(source: &Source) -> Result<Vec<u8>> {
    let mut writer = Writer::new(source);
    let mut body = Vec::new();
    writer.text(&mut body, Some(&source.kubernetes));
    writer.group_versions(&mut body, source)?;
    writer.enums(&mut body, source)?;
    writer.kinds(&mut body, source);
    writer.types(&mut body, source)?;
    let mut out = MAGIC.to_vec();
    writer.strings(&mut out);
    out.extend_from_slice(&body);
    Ok(out)
}

struct Writer<'a> {
    /// Strings in the order of first use, and their indices.
    strings: Vec<String>,
    indices: HashMap<String, usize>,
    /// The number of each type.
    numbers: HashMap<&'a str, usize>,
    /// The schema each of the three kinds of schema holds, by the special's name.
    schemas: HashMap<&'a str, &'a str>,
}

impl<'a> Writer<'a> {
    fn new(source: &'a Source) -> Self {
        let numbers = source
            .types
            .iter()
            .enumerate()
            .map(|(at, (id, _))| (id.as_str(), at))
            .collect();
        let schemas = source.types.iter().filter_map(|(_, of)| schema_of(of)).collect();
        Writer {
            strings: Vec::new(),
            indices: HashMap::new(),
            numbers,
            schemas,
        }
    }

    fn strings(&self, out: &mut Vec<u8>) {
        number(out, self.strings.len());
        for text in &self.strings {
            number(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }

    fn text(&mut self, out: &mut Vec<u8>, text: Option<&str>) {
        let Some(text) = text else { return number(out, 0) };
        if let Some(index) = self.indices.get(text) {
            return number(out, *index);
        }
        self.strings.push(text.to_string());
        self.indices.insert(text.to_string(), self.strings.len());
        number(out, self.strings.len());
    }

    fn texts(&mut self, out: &mut Vec<u8>, texts: &[String]) {
        number(out, texts.len());
        for text in texts {
            self.text(out, Some(text));
        }
    }

    fn group_versions(&mut self, out: &mut Vec<u8>, source: &Source) -> Result<()> {
        number(out, source.group_versions.len());
        for (name, value) in &source.group_versions {
            let known: GroupVersion = serde_json::from_value(value.clone()).with_context(|| name.clone())?;
            self.text(out, Some(name));
            self.text(out, Some(&known.package));
            number(out, known.on.into());
        }
        Ok(())
    }

    fn enums(&mut self, out: &mut Vec<u8>, source: &Source) -> Result<()> {
        number(out, source.enums.len());
        for (name, values) in &source.enums {
            let values: Vec<String> = serde_json::from_value(values.clone()).with_context(|| name.clone())?;
            self.text(out, Some(name));
            self.texts(out, &values);
        }
        Ok(())
    }

    fn kinds(&mut self, out: &mut Vec<u8>, source: &Source) {
        let mut kinds: Vec<_> = source
            .types
            .iter()
            .enumerate()
            .filter_map(|(at, (_, of))| Some((of.gvk.as_ref()?, at)))
            .collect();
        kinds.sort();
        number(out, kinds.len());
        for (gvk, at) in kinds {
            gvk.iter().for_each(|part| self.text(out, Some(part)));
            number(out, at);
        }
    }

    fn types(&mut self, out: &mut Vec<u8>, source: &Source) -> Result<()> {
        let mut records = Vec::new();
        number(out, source.types.len());
        for (id, of) in &source.types {
            let record = self.record(id, of).with_context(|| format!("type {id}"))?;
            number(out, record.len());
            records.extend_from_slice(&record);
        }
        out.extend_from_slice(&records);
        Ok(())
    }

    fn record(&mut self, id: &str, of: &Type) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.text(&mut out, Some(id));
        number(
            &mut out,
            flags(&[of.any_group, of.type_meta, of.wrap, of.gvk.is_some().into()]),
        );
        self.text(&mut out, of.openapi.as_deref());
        self.text(&mut out, of.proto.as_deref());
        of.gvk
            .iter()
            .flatten()
            .for_each(|part| self.text(&mut out, Some(part)));
        number(&mut out, index_of(of.special.as_deref(), &SPECIALS)?);
        number(
            &mut out,
            index_of(of.map_type.as_deref(), &["atomic", "granular"])?,
        );
        self.tree(&mut out, of.unions.as_ref())?;
        number(&mut out, of.fields.len());
        for field in &of.fields {
            self.field(&mut out, field)
                .with_context(|| format!("field {}", field.name))?;
        }
        Ok(out)
    }

    fn field(&mut self, out: &mut Vec<u8>, field: &Field) -> Result<()> {
        let (list, map) = match field.card.as_deref() {
            None => (0, 0),
            Some("rep") => (1, 0),
            Some("map") => (0, 1),
            Some(other) => bail!("unknown cardinality {other}"),
        };
        self.text(out, Some(&field.name));
        number(out, field.num.unwrap_or(0) as usize);
        number(
            out,
            flags(&[
                list,
                map,
                field.inline,
                field.wrap,
                field.ptr,
                field.req,
                has_rules(field).into(),
            ]),
        );
        self.of(out, &field.of)?;
        self.tree(out, field.zero.as_ref())?;
        self.tree(out, field.def.as_ref())?;
        number(
            out,
            index_of(field.list_type.as_deref(), &["atomic", "set", "map"])?,
        );
        self.texts(out, &field.list_keys);
        number(out, index_of(field.map_type.as_deref(), &["atomic", "granular"])?);
        if has_rules(field) {
            rules(field)
                .into_iter()
                .for_each(|rule| self.text(out, rule.as_deref()));
            self.texts(out, &field.check);
        }
        Ok(())
    }

    fn of(&mut self, out: &mut Vec<u8>, name: &str) -> Result<()> {
        let Some(at) = SCALARS.iter().position(|scalar| *scalar == name) else {
            number(out, SCALARS.len() + self.type_number(name)?);
            return Ok(());
        };
        number(out, at);
        if let Some(schema) = self.schemas.get(name) {
            number(out, self.type_number(schema)?);
        }
        Ok(())
    }

    fn type_number(&self, name: &str) -> Result<usize> {
        self.numbers
            .get(name)
            .copied()
            .with_context(|| format!("no type {name}"))
    }

    fn tree(&mut self, out: &mut Vec<u8>, value: Option<&Value>) -> Result<()> {
        let Some(value) = value else {
            out.push(0);
            return Ok(());
        };
        match value {
            Value::Null => out.push(1),
            Value::Bool(value) => out.push(2 + u8::from(*value)),
            Value::Number(value) => {
                let whole = value
                    .as_i64()
                    .with_context(|| format!("{value} is not an integer"))?;
                out.push(4);
                number(out, ((whole << 1) ^ (whole >> 63)) as usize);
            }
            Value::String(text) => {
                out.push(5);
                self.text(out, Some(text));
            }
            Value::Array(items) => {
                out.push(6);
                number(out, items.len());
                items.iter().try_for_each(|item| self.tree(out, Some(item)))?;
            }
            Value::Object(map) => {
                out.push(7);
                number(out, map.len());
                for (key, value) in map {
                    self.text(out, Some(key));
                    self.tree(out, Some(value))?;
                }
            }
        }
        Ok(())
    }
}

/// The three kinds of schema name theirs in a field `schema`.
fn schema_of(of: &Type) -> Option<(&str, &str)> {
    let special = of
        .special
        .as_deref()
        .filter(|name| name.starts_with("schemaor"))?;
    let schema = of.fields.iter().find(|field| field.name == "schema")?;
    Some((special, &schema.of))
}

fn rules(field: &Field) -> [&Option<String>; 7] {
    [
        &field.raw,
        &field.patch,
        &field.merge_key,
        &field.enumeration,
        &field.gate,
        &field.one_of,
        &field.named,
    ]
}

fn has_rules(field: &Field) -> bool {
    !field.check.is_empty() || rules(field).iter().any(|rule| rule.is_some())
}

fn flags(bits: &[u8]) -> usize {
    bits.iter()
        .enumerate()
        .map(|(at, bit)| usize::from(*bit) << at)
        .sum()
}

/// 0 for none, else the index of the name counted from 1.
fn index_of(name: Option<&str>, names: &[&str]) -> Result<usize> {
    let Some(name) = name else { return Ok(0) };
    let at = names
        .iter()
        .position(|known| *known == name)
        .with_context(|| format!("unknown name {name}"))?;
    Ok(at + 1)
}

fn number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
