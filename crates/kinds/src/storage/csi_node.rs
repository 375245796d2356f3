//! CSINode: the CSI drivers that are installed on a node.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::display::RawJson;
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, go_dump, meta, name, top_level,
};

const NODE_ID_BYTES: usize = 256;
const DRIVER_BYTES: usize = 63;

#[derive(Debug)]
pub struct CsiNode;

impl Strategy for CsiNode {
    const KIND: (&'static str, &'static str, &'static str) = ("storage.k8s.io", "v1", "CSINode");
    const NAMES: Names = Names::new("csinodes", "csinode");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::number("Drivers", |node, _| {
            let drivers = node.at(fields::SPEC).at(fields::DRIVERS).len();
            Cell::from(i64::try_from(drivers).expect("drivers fit into memory"))
        })
        .description("The number of drivers."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.no_unconditional_update().returns_deleted();

    // `CSIVolumeHealth` is disabled; a status update changes only metadata.
    fn prepare_status(node: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(node, old, &[fields::METADATA, fields::STATUS]);
        meta::keep_for_status(node, old);
        if old.at(&[fields::STATUS, fields::STORAGE_HEALTH]).is_none() {
            node.take(&[fields::STATUS, fields::STORAGE_HEALTH]);
        }
    }

    fn validate(node: &FieldRef<'_>, _facts: &RequestFacts) {
        let mut names = BTreeSet::new();
        for driver in node.at(fields::SPEC).at(fields::DRIVERS).items() {
            validate_driver(&driver, &mut names);
        }
    }

    // Of an existing driver only the number of allocatable volumes may change.
    fn validate_update(node: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let drivers = node.at(fields::SPEC).at(fields::DRIVERS);
        for before in old.at(fields::SPEC).at(fields::DRIVERS).items() {
            let same = |driver: &FieldRef<'_>| driver.at(fields::NAME).str() == before.at(fields::NAME).str();
            for driver in drivers.items().filter(same) {
                let (new, old) = (without_count(&driver), without_count(&before));
                if let Some(shape) = driver.shape().filter(|_| !new.semantic_eq(&old)) {
                    let shown = RawJson::new(go_dump::dump(shape, &new));
                    drivers.invalid_as(shown, "field is immutable");
                }
            }
        }
    }
}

fn without_count(driver: &FieldRef<'_>) -> Tree {
    let mut driver = driver.value().clone();
    driver.take(&[fields::ALLOCATABLE]);
    driver
}

fn validate_driver<'a>(driver: &FieldRef<'a>, names: &mut BTreeSet<&'a str>) {
    check_driver_name(&driver.at(fields::NAME));
    let id = driver.at(fields::NODE_ID);
    id.require();
    if id.str().len() > NODE_ID_BYTES {
        id.invalid(&format!("must be {NODE_ID_BYTES} characters or less"));
    }
    driver.at(fields::ALLOCATABLE).at(fields::COUNT).not_negative();
    if !names.insert(driver.at(fields::NAME).str()) {
        driver.at(fields::NAME).duplicate();
    }
    let mut keys = BTreeSet::new();
    for key in driver.at(fields::TOPOLOGY_KEYS).strs() {
        if key.is_empty() {
            driver.required("");
        }
        if !keys.insert(key) {
            driver.errors().duplicate(key);
        }
        name::report(key, name::check_qualified_name(key), driver.errors());
    }
}

/// Reports an invalid driver name.
pub(crate) fn check_driver_name(driver: &FieldRef<'_>) {
    if !driver.require() {
        return;
    }
    if driver.str().len() > DRIVER_BYTES {
        driver.too_long(DRIVER_BYTES);
    }
    let lower = driver.str().to_lowercase();
    name::report(
        driver.str(),
        name::check_dns1123_subdomain(&lower),
        driver.errors(),
    );
}
