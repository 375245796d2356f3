//! The layer table: which crate may depend on which, as ARCHITECTURE.md lists it. A new entry is a design change.

/// A row of the layer table: one crate.
#[derive(Debug)]
pub(crate) struct CrateRow {
    /// The folder under `crates/`, or under `examples/`.
    pub(crate) name: &'static str,
    /// A crate may use only lower levels, and of those only the ones it names.
    pub(crate) level: u8,
    pub(crate) may_use: MayUse,
}

#[derive(Debug)]
pub(crate) enum MayUse {
    Only(&'static [&'static str]),
    /// Everything that lies lower, which is all that ships.
    AllThatShips,
}

/// The level of crates for development only (tests, benches, checks). No shipped crate depends on them.
const DEV_ONLY: u8 = 9;

/// What the author of a controller builds on.
const FOR_AUTHORS: &[&str] = &["api", "client", "manifests", "runtime"];

/// The crates that are published, for use without the source of Setpoint.
pub(crate) const LIBRARIES: &[&str] = &[
    "api",
    "cache",
    "client",
    "codec",
    "manifests",
    "runtime",
    "schema",
    "values",
];

/// Libraries that come with the source only, since they depend on crates that are not published.
pub(crate) const LIBRARIES_IN_SOURCE: &[&str] = &["testkit"];

pub(crate) const CRATES: &[CrateRow] = &[
    row("api", 0, &[]),
    row("cni", 0, &[]),
    row("container-runtime", 0, &[]),
    row("grpc", 0, &[]),
    row("program-pages", 0, &[]),
    row("schema", 0, &[]),
    row("store", 0, &[]),
    row("streaming", 0, &[]),
    row("x509", 0, &[]),
    row("pki", 1, &["x509"]),
    row("codec", 1, &["api", "schema"]),
    row("cri", 1, &["container-runtime", "grpc", "streaming"]),
    row("etcd", 1, &["grpc", "store"]),
    row("encryption", 2, &["api", "codec", "grpc", "schema", "store"]),
    row("values", 1, &["api"]),
    row("cache", 2, &["api", "codec"]),
    row("cel", 2, &["api", "schema", "values"]),
    row("client", 2, &["api", "codec", "values"]),
    row("template", 2, &["codec"]),
    row("strategy", 3, &["api", "cel", "codec", "schema", "values"]),
    row(
        "kinds",
        4,
        &["api", "cel", "codec", "schema", "strategy", "values", "x509"],
    ),
    row("registry-api", 4, &["api", "cache", "schema", "strategy"]),
    row(
        "registry",
        5,
        &[
            "api",
            "cache",
            "codec",
            "registry-api",
            "schema",
            "store",
            "strategy",
            "values",
        ],
    ),
    row(
        "admission",
        6,
        &[
            "api",
            "cache",
            "cel",
            "codec",
            "kinds",
            "registry-api",
            "schema",
            "strategy",
            "values",
            "x509",
        ],
    ),
    row(
        "auth",
        6,
        &["api", "cache", "cel", "codec", "registry-api", "schema", "x509"],
    ),
    row("runtime", 6, &["api", "cache", "client", "values"]),
    row(
        "apiserver",
        7,
        &[
            "api",
            "auth",
            "codec",
            "registry-api",
            "schema",
            "strategy",
            "streaming",
            "values",
            "x509",
        ],
    ),
    row(
        "cli",
        7,
        &[
            "api",
            "client",
            "codec",
            "encryption",
            "etcd",
            "kinds",
            "pki",
            "registry",
            "runtime",
            "store",
            "template",
        ],
    ),
    row("controllers", 7, &["api", "runtime", "values", "x509"]),
    row("dashboard", 7, &["api", "client"]),
    row("kuttl", 6, &["api", "cel", "client", "codec", "template"]),
    row(
        "kudo",
        7,
        &[
            "api", "client", "codec", "kuttl", "pki", "runtime", "schema", "template",
        ],
    ),
    row("manifests", 7, &["api", "client", "codec", "runtime"]),
    row(
        "node",
        7,
        &[
            "api",
            "client",
            "container-runtime",
            "grpc",
            "pki",
            "runtime",
            "streaming",
            "values",
            "x509",
        ],
    ),
    row("scheduler", 7, &["api", "cel", "runtime", "values"]),
    row(
        "shell-operator",
        7,
        &["api", "client", "codec", "pki", "runtime", "values"],
    ),
    CrateRow {
        name: "setpoint",
        level: 8,
        may_use: MayUse::AllThatShips,
    },
    CrateRow {
        name: "bench",
        level: DEV_ONLY,
        may_use: MayUse::AllThatShips,
    },
    row("conformance", DEV_ONLY, &["api", "client", "codec", "schema"]),
    CrateRow {
        name: "fuzz",
        level: DEV_ONLY,
        may_use: MayUse::AllThatShips,
    },
    row("reference", DEV_ONLY, &[]),
    CrateRow {
        name: "testkit",
        level: DEV_ONLY,
        may_use: MayUse::AllThatShips,
    },
    row("soak", DEV_ONLY + 1, &["api", "client", "conformance", "runtime"]),
    row("xtask", DEV_ONLY, &[]),
    row("edge-vs-level", DEV_ONLY, FOR_AUTHORS),
    row("greeter-operator", DEV_ONLY, FOR_AUTHORS),
    row("operator", DEV_ONLY, FOR_AUTHORS),
    row("sample-controller", DEV_ONLY, FOR_AUTHORS),
];

const fn row(name: &'static str, level: u8, may_use: &'static [&'static str]) -> CrateRow {
    CrateRow {
        name,
        level,
        may_use: MayUse::Only(may_use),
    }
}

impl CrateRow {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        CRATES.iter().find(|row| row.name == name)
    }

    /// Whether the crate may build on another.
    pub(crate) fn may_depend_on(&self, other: &Self) -> bool {
        match self.may_use {
            MayUse::Only(names) => names.contains(&other.name),
            MayUse::AllThatShips => other.level < self.level,
        }
    }

    /// Whether the crate's tests may depend on another: on the test kit, `conformance`, the reference data, and all lower
    /// levels.
    pub(crate) fn may_test_with(&self, other: &Self) -> bool {
        matches!(other.name, "testkit" | "conformance" | "reference")
            || other.level < self.level
            || self.may_depend_on(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_of_the_table_points_down() {
        for row in CRATES {
            for other in CRATES.iter().filter(|other| row.may_depend_on(other)) {
                assert!(other.level < row.level, "{} -> {}", row.name, other.name);
            }
        }
    }

    #[test]
    fn every_name_in_the_table_is_a_crate() {
        for row in CRATES {
            let MayUse::Only(names) = row.may_use else {
                continue;
            };
            for name in names {
                assert!(CrateRow::find(name).is_some(), "{} names {name}", row.name);
            }
        }
    }
}
