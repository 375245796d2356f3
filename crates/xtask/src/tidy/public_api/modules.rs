//! The modules of a crate, and which of its items another crate can name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::scan::{self, Item};
use super::uses::{self, UseLeaf};
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

/// The path of a module below the crate's root.
pub(super) type ModulePath = Vec<String>;

/// An item and the module that it is in.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) source: &'a Source,
    pub(super) module: ModulePath,
    pub(super) item: Item,
}

/// All items of one crate.
#[derive(Debug)]
pub(super) struct Modules<'a> {
    tree: &'a Tree,
    pub(super) nodes: Vec<Node<'a>>,
    /// Every module.
    known: BTreeSet<ModulePath>,
    /// The modules that are public, as all above them are.
    reachable: BTreeSet<ModulePath>,
    /// The public module of each public item, by its index in `nodes`: its own, or the first that re-exports it.
    pub(super) exported: BTreeMap<usize, ModulePath>,
}

/// A module while it is read.
#[derive(Debug)]
struct Location {
    /// Where the files of the modules below it are.
    folder: String,
    module: ModulePath,
    is_reachable: bool,
}

impl Location {
    /// The location of a module that is declared here.
    fn below(&self, item: &Item) -> Self {
        Self {
            folder: format!("{}/{}", self.folder, item.name),
            module: [self.module.as_slice(), std::slice::from_ref(&item.name)].concat(),
            is_reachable: self.is_reachable && item.is_public,
        }
    }
}

/// `pub use` chains in private modules are followed this far.
const MAX_CHAIN: usize = 8;

impl<'a> Modules<'a> {
    /// Reads the crate in a folder below `crates/`.
    pub(super) fn load(tree: &'a Tree, krate: &str) -> Option<Self> {
        let folder = format!("crates/{krate}/src");
        let root = tree.find(&format!("{folder}/lib.rs"))?;
        let mut modules = Self {
            tree,
            nodes: Vec::new(),
            known: BTreeSet::new(),
            reachable: BTreeSet::new(),
            exported: BTreeMap::new(),
        };
        let location = Location {
            folder,
            module: Vec::new(),
            is_reachable: true,
        };
        modules.read(root, 0..root.code.len(), &location);
        modules.export_items();
        modules.export_uses();
        Some(modules)
    }

    pub(super) fn is_reachable(&self, module: &ModulePath) -> bool {
        self.reachable.contains(module)
    }

    /// The type or trait of a name, the nearest to a module.
    pub(super) fn find_type(&self, name: &str, module: &[String]) -> Option<usize> {
        let is_type = |node: &Node<'_>| {
            matches!(node.item.keyword, "struct" | "enum" | "union" | "trait" | "type")
                && node.item.name == name
        };
        let shared = |node: &Node<'_>| {
            let pairs = node.module.iter().zip(module);
            pairs.take_while(|(a, b)| a == b).count()
        };
        let found = self.nodes.iter().enumerate().filter(|(_, node)| is_type(node));
        let nearest = found.max_by_key(|(_, node)| (shared(node), usize::MAX - node.module.len()));
        nearest.map(|(index, _)| index)
    }

    fn read(&mut self, source: &'a Source, range: Range<usize>, location: &Location) {
        if location.is_reachable {
            self.reachable.insert(location.module.clone());
        }
        self.known.insert(location.module.clone());
        for item in scan::items(source, range) {
            if item.keyword == "mod" {
                let below = location.below(&item);
                match &item.body {
                    Some(body) => self.read(source, body.clone(), &below),
                    None => self.read_file(&below),
                }
            }
            self.nodes.push(Node {
                source,
                module: location.module.clone(),
                item,
            });
        }
    }

    fn read_file(&mut self, location: &Location) {
        let tree = self.tree;
        let file = tree
            .find(&format!("{}.rs", location.folder))
            .or_else(|| tree.find(&format!("{}/mod.rs", location.folder)));
        if let Some(source) = file.filter(|source| !source.is_all_test()) {
            self.read(source, 0..source.code.len(), location);
        }
    }

    fn export_items(&mut self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let is_named = !matches!(node.item.keyword, "" | "impl" | "use" | "macro_rules");
            if is_named && node.item.is_public && self.reachable.contains(&node.module) {
                self.exported.insert(index, node.module.clone());
            }
        }
    }

    /// Items of private modules are public where a public module re-exports them.
    fn export_uses(&mut self) {
        let mut found = Vec::new();
        for node in self.nodes.iter().filter(|node| self.is_reachable(&node.module)) {
            for leaf in uses::public_leaves(node) {
                self.follow(&node.module, &leaf, 0, &mut |index| {
                    found.push((index, node.module.clone()));
                });
            }
        }
        found.sort_by_key(|(index, module)| (*index, module.len()));
        for (index, module) in found {
            self.exported.entry(index).or_insert(module);
        }
    }

    /// Calls `export` with the items that a `use` names, through further re-exports.
    fn follow(&self, module: &[String], leaf: &UseLeaf, chain: usize, export: &mut dyn FnMut(usize)) {
        let Some(target) = self.resolve(module, &leaf.path).filter(|_| chain < MAX_CHAIN) else {
            return;
        };
        let is_named = |name: &str| leaf.is_glob() || name == leaf.name;
        for (index, node) in self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.module == target)
        {
            if node.item.keyword == "use" {
                for next in uses::public_leaves(node) {
                    if next.is_glob() {
                        let renamed = UseLeaf {
                            name: leaf.name.clone(),
                            ..next
                        };
                        self.follow(&target, &renamed, chain + 1, export);
                    } else if is_named(&next.alias) {
                        self.follow(&target, &next, chain + 1, export);
                    }
                }
            } else if node.item.is_public && node.item.keyword != "impl" && is_named(&node.item.name) {
                export(index);
            }
        }
    }

    /// The module that a path names; none for other crates.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<ModulePath> {
        let mut segments = path.iter().map(String::as_str).peekable();
        let mut target = match segments.peek() {
            Some(&"crate") => {
                segments.next();
                Vec::new()
            }
            Some(&"self") => {
                segments.next();
                module.to_vec()
            }
            _ => module.to_vec(),
        };
        for segment in segments {
            if segment == "super" {
                target.pop()?;
            } else {
                target.push(segment.to_owned());
            }
        }
        self.known.contains(&target).then_some(target)
    }
}
