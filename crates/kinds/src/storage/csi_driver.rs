//! CSIDriver: the capabilities and requirements of a CSI volume driver.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::columns::{self, Column, NONE, UNSET};
use crate::field::FieldRef;
use crate::meta;
use crate::strategy::{Names, RequestFacts, Rules, Scope, Strategy};

const TOKEN_SECONDS: std::ops::RangeInclusive<i64> = 600..=1 << 32;
const FS_GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: &[&str] = &["Persistent", "Ephemeral"];
/// Defaults of boolean fields.
const DEFAULTS: &[(&str, bool)] = &[
    ("attachRequired", true),
    ("podInfoOnMount", false),
    ("storageCapacity", false),
    ("requiresRepublish", false),
    ("seLinuxMount", false),
    ("preventPodSchedulingIfMissing", false),
];

#[derive(Debug)]
pub struct CsiDriver;

impl Strategy for CsiDriver {
    const KIND: (&'static str, &'static str, &'static str) = ("storage.k8s.io", "v1", "CSIDriver");
    const NAMES: Names = Names::new("csidrivers", "csidriver");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::boolean("AttachRequired", |driver, _| {
            Cell::Boolean(driver.at("spec").at("attachRequired").find_bool().unwrap_or(true))
        })
        .description("Whether volumes need an attach operation."),
        Column::boolean("PodInfoOnMount", |driver, _| bool_cell(driver, "podInfoOnMount"))
            .description("Whether mounts receive information about the pod."),
        Column::boolean("StorageCapacity", |driver, _| {
            bool_cell(driver, "storageCapacity")
        })
        .description("Whether the driver publishes storage capacity."),
        Column::text("TokenRequests", |driver, _| Cell::from(audiences(driver)))
            .description("The audiences of requested tokens."),
        Column::boolean("RequiresRepublish", |driver, _| {
            bool_cell(driver, "requiresRepublish")
        })
        .description("Whether volumes are republished periodically."),
        Column::text("Modes", |driver, _| {
            let modes: Vec<&str> = driver.at("spec").at("volumeLifecycleModes").strs().collect();
            Cell::from(if modes.is_empty() {
                NONE.to_owned()
            } else {
                modes.join(",")
            })
        })
        .description("The supported volume lifecycle modes."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        unconditional_update: false,
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(driver: &mut Tree) {
        let spec = driver.child("spec");
        for (field, value) in DEFAULTS {
            spec.set_default(field, *value);
        }
        spec.set_default("fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.items("volumeLifecycleModes").is_empty() {
            spec.set(&["volumeLifecycleModes"], vec![Tree::from("Persistent")]);
        }
    }

    // The generation of a driver is incremented by updates, but not set on create.
    fn prepare_update(driver: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        if driver.get("spec") != old.get("spec") {
            meta::set(driver, "generation", meta::int(old, "generation") + 1);
        }
    }

    fn validate(driver: &FieldRef<'_>) {
        let spec = driver.at("spec");
        let policy = spec.at("fsGroupPolicy");
        if policy.is_set() && !FS_GROUP_POLICIES.contains(&policy.str()) {
            policy.not_supported(FS_GROUP_POLICIES);
        }
        validate_token_requests(&spec.at("tokenRequests"));
        let modes = spec.at("volumeLifecycleModes");
        for mode in modes.strs().filter(|mode| !LIFECYCLE_MODES.contains(mode)) {
            modes.errors().not_supported(mode, LIFECYCLE_MODES);
        }
        let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
        if period.is_set() && period.int() < 10 {
            period.invalid("must be greater than or equal to 10 seconds");
        }
        let in_secrets = spec.at("serviceAccountTokenInSecrets");
        if in_secrets.is_set() && spec.at("tokenRequests").is_empty() {
            in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified");
        }
    }

    fn validate_update(driver: &FieldRef<'_>, old: &FieldRef<'_>) {
        let (spec, old) = (driver.at("spec"), old.at("spec"));
        let attach = spec.at("attachRequired");
        let field = spec.errors().at("attachedRequired");
        attach.with_errors(field).immutable(&old.at("attachRequired"));
        spec.at("volumeLifecycleModes")
            .immutable(&old.at("volumeLifecycleModes"));
    }

    fn warnings(driver: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let spec = driver.at("spec");
        let requests = spec.at("tokenRequests");
        let same = old.is_some_and(|old| requests.is_same(&old.at("spec").at("tokenRequests")));
        if same || requests.is_empty() || spec.at("serviceAccountTokenInSecrets").is_set() {
            return Vec::new();
        }
        vec![
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
                .to_owned(),
        ]
    }
}

fn validate_token_requests(requests: &FieldRef<'_>) {
    let mut audiences = BTreeSet::new();
    for request in requests.items() {
        let (audience, seconds) = (request.at("audience"), request.at("expirationSeconds"));
        if !audiences.insert(audience.str()) {
            audience.duplicate();
            continue;
        }
        match seconds.find_int() {
            Some(seconds_value) if seconds_value < *TOKEN_SECONDS.start() => {
                seconds.invalid("may not specify a duration less than 10 minutes");
            }
            Some(seconds_value) if seconds_value > *TOKEN_SECONDS.end() => {
                seconds.invalid("may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
}

fn bool_cell(driver: &FieldRef<'_>, field: &str) -> Cell {
    Cell::Boolean(driver.at("spec").at(field).bool())
}

fn audiences(driver: &FieldRef<'_>) -> String {
    let requests = driver.at("spec").at("tokenRequests");
    if !requests.is_set() {
        return UNSET.to_owned();
    }
    let audiences: Vec<&str> = requests
        .items()
        .map(|request| request.at("audience").str())
        .collect();
    audiences.join(",")
}
