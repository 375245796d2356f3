//! The top-level parts of a document, which the rules of most kinds keep, drop and compare as wholes.

use setpoint_schema::Tree;

/// Takes a part away.
pub fn drop(object: &mut Tree, part: &str) {
    object.take(&[part]);
}

/// Makes a part what it was before.
pub fn keep(object: &mut Tree, old: &Tree, part: &str) {
    match old.get(part) {
        Some(before) => object.set(&[part], before.clone()),
        None => drop(object, part),
    }
}

/// Makes every part what it was before, but these and the names of the kind.
pub fn keep_all_but(object: &mut Tree, old: &Tree, but: &[&str]) {
    for part in others(object, old, but) {
        keep(object, old, &part);
    }
}

/// Whether any part is another than before, but these and the names of the kind.
pub fn differ_besides(object: &Tree, old: &Tree, but: &[&str]) -> bool {
    let null = Tree::Null;
    others(object, old, but).iter().any(|part| {
        let (new, old) = (object.get(part), old.get(part));
        !new.unwrap_or(&null).means_same(old.unwrap_or(&null))
    })
}

fn others(object: &Tree, old: &Tree, but: &[&str]) -> Vec<String> {
    let parts = [object, old].into_iter().filter_map(Tree::as_map);
    let mut parts: Vec<String> = parts
        .flat_map(|map| map.keys().map(str::to_owned))
        .filter(|part| part != "kind" && part != "apiVersion" && !but.contains(&part.as_str()))
        .collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}
