//! The names of types that the published data leaves out, and that refusals show: a label is "of type string", but the
//! type of a secret is "of type v1.SecretType".
//!
//! `names.tsv` has a row for each field whose declared type has a name of its own that follows neither from its JSON
//! type nor from its enum.

use std::collections::HashMap;

use anyhow::{Context, Result};

use super::source::Source;

const NAMES: &str = include_str!("names.tsv");

/// Gives every field in the table its name. A row that fits no field is refused: the table is then out of date.
pub(super) fn add(source: &mut Source) -> Result<()> {
    let places: HashMap<String, usize> = source
        .types
        .iter()
        .enumerate()
        .map(|(at, (id, _))| (id.clone(), at))
        .collect();
    for row in NAMES.lines().skip(1) {
        let mut columns = row.split('\t');
        let (Some(id), Some(field), Some(name)) = (columns.next(), columns.next(), columns.next()) else {
            anyhow::bail!("{row:?} has not three columns");
        };
        let at = places.get(id).with_context(|| format!("no type {id}"))?;
        let fields = &mut source.types[*at].1.fields;
        let named = fields.iter_mut().find(|known| known.name == field);
        named.with_context(|| format!("no field {id}.{field}"))?.named = Some(name.to_owned());
    }
    Ok(())
}
