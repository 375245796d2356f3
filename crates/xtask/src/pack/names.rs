//! Go type names that the published data omits and error messages contain: a label is "of type string", but the type of a
//! Secret is "of type v1.SecretType".
//!
//! `names.tsv` has a row for each field whose Go type name cannot be derived from its JSON type or its
//! enum.

use std::collections::HashMap;

use anyhow::{Context, Result};

use super::source::Source;

const NAMES: &str = include_str!("names.tsv");

/// Sets the Go type name of every field in the table. A row without a field is an error: the table is then out of date.
pub(super) fn add(source: &mut Source) -> Result<()> {
    let indices: HashMap<String, usize> = source
        .types
        .iter()
        .enumerate()
        .map(|(at, (id, _))| (id.clone(), at))
        .collect();
    for row in NAMES.lines().skip(1) {
        let mut columns = row.split('\t');
        let (Some(id), Some(field), Some(name)) = (columns.next(), columns.next(), columns.next()) else {
            anyhow::bail!("expected three columns, found {row:?}");
        };
        let at = indices.get(id).with_context(|| format!("no type {id}"))?;
        let fields = &mut source.types[*at].1.fields;
        let named = fields.iter_mut().find(|known| known.name == field);
        named.with_context(|| format!("no field {id}.{field}"))?.named = Some(name.to_owned());
    }
    Ok(())
}
