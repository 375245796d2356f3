//! The lines of a snapshot: `module: signature` for each public item, field, variant and method.

use std::collections::BTreeSet;
use std::ops::Range;

use super::modules::{Modules, Node};
use super::scan::{self, Item, find_top_word, generics_len, split_top};
use super::text::{base_name, is_public_field, normalize, tuple_struct};
use super::uses;
use crate::tidy::source::Source;

/// The lines of a crate, sorted. `root` is the crate's name in Rust.
pub(super) fn lines(modules: &Modules<'_>, root: &str) -> BTreeSet<String> {
    let mut lines = Lines {
        modules,
        root,
        found: BTreeSet::new(),
    };
    for (index, node) in modules.nodes.iter().enumerate() {
        match node.item.keyword {
            "use" if modules.is_reachable(&node.module) => lines.add_uses(node),
            "impl" => lines.add_impl(node),
            "macro_rules" => lines.add_macro(node),
            _ => lines.add_item(index, node),
        }
    }
    lines.found
}

struct Lines<'a> {
    modules: &'a Modules<'a>,
    root: &'a str,
    found: BTreeSet<String>,
}

impl Lines<'_> {
    fn push(&mut self, path: &str, line: &str) {
        self.found.insert(format!("{path}: {line}"));
    }

    fn add_uses(&mut self, node: &Node<'_>) {
        let path = self.path(&node.module);
        for leaf in uses::public_leaves(node) {
            self.push(
                &path,
                &format!("{}{}", attributes(node.source, &node.item), leaf.line()),
            );
        }
    }

    /// An exported macro is at the crate's root, whatever its module.
    fn add_macro(&mut self, node: &Node<'_>) {
        let mut attributes = node.item.attributes.iter();
        if attributes.any(|range| node.source.code[range.clone()].contains("macro_export")) {
            self.push(self.root, &format!("macro {}!", node.item.name));
        }
    }

    fn add_item(&mut self, index: usize, node: &Node<'_>) {
        let Some(module) = self.modules.exported.get(&index) else {
            return;
        };
        let (path, item) = (self.path(module), &node.item);
        let line = signature(node.source, item);
        self.push(&path, &format!("{}{line}", attributes(node.source, item)));
        let path = format!("{path}::{}", item.name);
        for derived in derives(node.source, item) {
            self.push(&path, &format!("impl {derived}"));
        }
        let Some(body) = item.body.clone() else { return };
        match item.keyword {
            "struct" | "union" => self.add_fields(&path, &node.source.code[body]),
            "enum" => self.add_variants(&path, &node.source.code[body]),
            "trait" => self.add_members(&path, node.source, body, |_| true),
            _ => {}
        }
    }

    /// The public fields. That there are private ones matters too: such a struct cannot be built by its fields.
    fn add_fields(&mut self, path: &str, body: &str) {
        for field in split_top(body, b',') {
            let field = normalize(field);
            let is_public = is_public_field(&field);
            self.push(path, if is_public { &field } else { "(private fields)" });
        }
    }

    fn add_variants(&mut self, path: &str, body: &str) {
        for variant in split_top(body, b',') {
            let variant = normalize(variant);
            if !variant.is_empty() {
                self.push(path, &variant);
            }
        }
    }

    /// Items of a trait or of an `impl`.
    fn add_members(
        &mut self,
        path: &str,
        source: &Source,
        body: Range<usize>,
        is_member: impl Fn(&Item) -> bool,
    ) {
        for item in scan::items(source, body).iter().filter(|item| is_member(item)) {
            // A trait's method with a body is one that an implementation may leave out.
            let provided = if item.body.is_some() && !item.is_public {
                " { .. }"
            } else {
                ""
            };
            let line = signature(source, item);
            self.push(path, &format!("{}{line}{provided}", attributes(source, item)));
        }
    }

    fn add_impl(&mut self, node: &Node<'_>) {
        let header = normalize(&node.source.code[node.item.header.clone()]);
        let rest = header.strip_prefix("unsafe ").unwrap_or(&header);
        let rest = rest.strip_prefix("impl").unwrap_or(rest).trim_start();
        let rest = &rest[generics_len(rest)..];
        let (of_trait, self_type) = match find_top_word(rest, "for") {
            Some(offset) => (Some(base_name(&rest[..offset])), base_name(&rest[offset + 3..])),
            None => (None, base_name(rest)),
        };
        let find = |name: &str| self.modules.find_type(name, &node.module);
        let own_trait = of_trait.and_then(&find);
        if own_trait.is_some_and(|index| !self.modules.exported.contains_key(&index)) {
            return;
        }
        let Some((index, module)) = find(self_type)
            .or(own_trait)
            .and_then(|index| Some((index, self.modules.exported.get(&index)?)))
        else {
            return;
        };
        let path = format!("{}::{}", self.path(module), self.modules.nodes[index].item.name);
        match (of_trait, node.item.body.clone()) {
            (Some(_), _) => {
                let attributes = attributes(node.source, &node.item);
                self.push(&path, &format!("{attributes}{header}"));
            }
            (None, Some(body)) => self.add_members(&path, node.source, body, |item| item.is_public),
            (None, None) => {}
        }
    }

    fn path(&self, module: &[String]) -> String {
        let mut path = self.root.to_owned();
        for name in module {
            path.push_str("::");
            path.push_str(name);
        }
        path
    }
}

/// An item in one line, without its body and without the value of a constant.
fn signature(source: &Source, item: &Item) -> String {
    let header = normalize(&source.code[item.header.clone()]);
    match item.keyword {
        "const" | "static" => header.split(" = ").next().unwrap_or_default().to_owned(),
        "struct" => tuple_struct(&header),
        _ => header,
    }
}

/// The attributes that matter to a caller, before the signature.
fn attributes(source: &Source, item: &Item) -> String {
    let texts = item.attributes.iter().map(|range| &source.text[range.clone()]);
    let kept = texts.filter(|text| {
        ["#[cfg(", "#[deprecated", "#[non_exhaustive"]
            .iter()
            .any(|start| text.starts_with(start))
    });
    kept.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ") + " ")
        .collect()
}

/// The traits that are derived.
fn derives(source: &Source, item: &Item) -> Vec<String> {
    let texts = item.attributes.iter().map(|range| &source.code[range.clone()]);
    let lists = texts.filter_map(|text| text.strip_prefix("#[derive(")?.strip_suffix(")]"));
    lists
        .flat_map(|list| list.split(','))
        .map(|name| base_name(name).to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}
