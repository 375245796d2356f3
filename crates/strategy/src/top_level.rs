//! The top-level fields of an object (`spec`, `status`, ...), which most strategies keep, drop and compare as a
//! whole.

use setpoint_schema::{Tree, fields};

/// Removes a field.
pub fn drop(object: &mut Tree, field: &str) {
    object.take(&[field]);
}

/// Restores the old value of a field.
pub fn keep(object: &mut Tree, old: &Tree, field: &str) {
    match old.get(field) {
        Some(before) => object.set(&[field], before.clone()),
        None => drop(object, field),
    }
}

/// Restores all fields except these, `kind` and `apiVersion`.
pub fn keep_all_except(object: &mut Tree, old: &Tree, except: &[&str]) {
    for field in others(object, old, except) {
        keep(object, old, &field);
    }
}

/// Whether any field differs, except these, `kind` and `apiVersion`.
pub fn differ_except(object: &Tree, old: &Tree, except: &[&str]) -> bool {
    let null = Tree::Null;
    others(object, old, except).iter().any(|field| {
        let (new, old) = (object.get(field), old.get(field));
        !new.unwrap_or(&null).semantic_eq(old.unwrap_or(&null))
    })
}

/// Whether fields other than these differ as JSON: in a custom kind null is a value.
pub fn differ_as_json_except(object: &Tree, old: &Tree, except: &[&str]) -> bool {
    others(object, old, except)
        .iter()
        .any(|field| match (object.get(field), old.get(field)) {
            (Some(new), Some(old)) => !new.json_eq(old),
            (new, old) => new.is_some() != old.is_some(),
        })
}

fn others(object: &Tree, old: &Tree, except: &[&str]) -> Vec<String> {
    let fields = [object, old].into_iter().filter_map(Tree::as_map);
    let mut fields: Vec<String> = fields
        .flat_map(|map| map.keys().map(str::to_owned))
        .filter(|field| {
            field != fields::KIND && field != fields::API_VERSION && !except.contains(&field.as_str())
        })
        .collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}
