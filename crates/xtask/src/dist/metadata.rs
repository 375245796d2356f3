//! Packages of the workspace: what `cargo metadata` and the lock file know of them, and which of them a binary is made
//! of.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

/// All packages and their dependencies.
#[derive(Debug)]
pub(super) struct Packages {
    packages: BTreeMap<String, Package>,
    nodes: BTreeMap<String, Node>,
    /// The SHA-256 digest of each package from a registry, by name and version.
    checksums: BTreeMap<(String, String), String>,
}

/// A package, as `cargo metadata` describes it.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    pub(super) description: Option<String>,
    /// `None` for a package of the workspace.
    pub(super) source: Option<String>,
    targets: Vec<Target>,
}

/// A package that a binary is made of.
#[derive(Debug)]
pub(super) struct Component<'a> {
    pub(super) package: &'a Package,
    pub(super) checksum: Option<&'a str>,
    /// Whether its code is in the binary. Other packages only run while it is built.
    pub(super) is_shipped: bool,
    /// The packages it depends on, by the same rule.
    pub(super) dependencies: Vec<&'a Package>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// `None` for a normal dependency.
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<LockedPackage>,
}

#[derive(Debug, Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    checksum: Option<String>,
}

// === impl Packages ===

impl Packages {
    /// Parses the output of `cargo metadata` and a lock file.
    pub(super) fn parse(metadata: &str, lock: &str) -> Result<Self> {
        let metadata: Metadata = serde_json::from_str(metadata).context("cannot parse the metadata")?;
        let lock: Lock = toml::from_str(lock).context("cannot parse the lock file")?;
        let checksums = lock.package.into_iter();
        let checksums =
            checksums.filter_map(|locked| Some(((locked.name, locked.version), locked.checksum?)));
        let by_id = |package: Package| (package.id.clone(), package);
        Ok(Self {
            packages: metadata.packages.into_iter().map(by_id).collect(),
            nodes: metadata
                .resolve
                .nodes
                .into_iter()
                .map(|node| (node.id.clone(), node))
                .collect(),
            checksums: checksums.collect(),
        })
    }

    /// Everything the binary of a package is made of, itself included, by name and version.
    pub(super) fn components(&self, binary: &str) -> Result<Vec<Component<'_>>> {
        let is_binary = |package: &&Package| package.name == binary && package.source.is_none();
        let root = self.packages.values().find(is_binary);
        let root = root.with_context(|| format!("there is no package {binary}"))?;
        let mut shipped = BTreeSet::new();
        self.collect(&root.id, &mut shipped, &|package, is_build| {
            !is_build && !package.is_macro()
        });
        let mut used = BTreeSet::new();
        self.collect(&root.id, &mut used, &|_, _| true);
        let component = |id: &&str| self.component(id, shipped.contains(id));
        let mut components: Vec<Component<'_>> = used.iter().map(component).collect();
        components.sort_by_key(|component| (&component.package.name, &component.package.version));
        Ok(components)
    }

    /// Adds the package and its dependencies that `follows` accepts: it gets the package, and whether it is a build
    /// dependency. Development dependencies are in no binary.
    fn collect<'a>(
        &'a self,
        id: &'a str,
        found: &mut BTreeSet<&'a str>,
        follows: &dyn Fn(&Package, bool) -> bool,
    ) {
        if !found.insert(id) {
            return;
        }
        for dependency in &self.nodes[id].deps {
            let has = |kind: Option<&str>| dependency.dep_kinds.iter().any(|has| has.kind.as_deref() == kind);
            let package = &self.packages[&dependency.pkg];
            let is_followed =
                (has(None) && follows(package, false)) || (has(Some("build")) && follows(package, true));
            if is_followed {
                self.collect(&dependency.pkg, found, follows);
            }
        }
    }

    fn component(&self, id: &str, is_shipped: bool) -> Component<'_> {
        let package = &self.packages[id];
        let key = (package.name.clone(), package.version.clone());
        let is_dependency = |dependency: &&Dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            kinds.any(|kind| kind.kind.as_deref() != Some("dev"))
        };
        let dependencies = self.nodes[id].deps.iter().filter(is_dependency);
        let mut dependencies: Vec<&Package> = dependencies
            .map(|dependency| &self.packages[&dependency.pkg])
            .collect();
        dependencies.sort_by_key(|package| (&package.name, &package.version));
        Component {
            package,
            checksum: self.checksums.get(&key).map(String::as_str),
            is_shipped,
            dependencies,
        }
    }
}

// === impl Package ===

impl Package {
    /// The package URL, which is also its reference within the bill of materials.
    pub(super) fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    fn is_macro(&self) -> bool {
        let mut kinds = self.targets.iter().flat_map(|target| &target.kind);
        kinds.any(|kind| kind == "proc-macro")
    }
}
