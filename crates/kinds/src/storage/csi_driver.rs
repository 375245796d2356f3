//! CSIDriver: the capabilities and requirements of a CSI volume driver.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE, UNSET};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, meta};

const TOKEN_SECONDS: std::ops::RangeInclusive<i64> = 600..=1 << 32;
const FS_GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: &[&str] = &["Persistent", "Ephemeral"];
/// Defaults of boolean fields.
const DEFAULTS: &[(&str, bool)] = &[
    (fields::ATTACH_REQUIRED, true),
    (fields::POD_INFO_ON_MOUNT, false),
    (fields::STORAGE_CAPACITY, false),
    (fields::REQUIRES_REPUBLISH, false),
    (fields::SE_LINUX_MOUNT, false),
    (fields::PREVENT_POD_SCHEDULING_IF_MISSING, false),
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
            Cell::Boolean(
                driver
                    .at(fields::SPEC)
                    .at(fields::ATTACH_REQUIRED)
                    .find_bool()
                    .unwrap_or(true),
            )
        })
        .description("Whether volumes need an attach operation."),
        Column::boolean("PodInfoOnMount", |driver, _| {
            bool_cell(driver, fields::POD_INFO_ON_MOUNT)
        })
        .description("Whether mounts receive information about the pod."),
        Column::boolean("StorageCapacity", |driver, _| {
            bool_cell(driver, fields::STORAGE_CAPACITY)
        })
        .description("Whether the driver publishes storage capacity."),
        Column::text("TokenRequests", |driver, _| Cell::from(audiences(driver)))
            .description("The audiences of requested tokens."),
        Column::boolean("RequiresRepublish", |driver, _| {
            bool_cell(driver, fields::REQUIRES_REPUBLISH)
        })
        .description("Whether volumes are republished periodically."),
        Column::text("Modes", |driver, _| {
            let modes: Vec<&str> = driver
                .at(fields::SPEC)
                .at(fields::VOLUME_LIFECYCLE_MODES)
                .strs()
                .collect();
            Cell::from(if modes.is_empty() {
                NONE.to_owned()
            } else {
                modes.join(",")
            })
        })
        .description("The supported volume lifecycle modes."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT.no_unconditional_update().returns_deleted();

    fn default_fields(driver: &mut Tree) {
        let spec = driver.child(fields::SPEC);
        for (field, value) in DEFAULTS {
            spec.set_default(field, *value);
        }
        spec.set_default(fields::FS_GROUP_POLICY, "ReadWriteOnceWithFSType");
        if spec.items(fields::VOLUME_LIFECYCLE_MODES).is_empty() {
            spec.set(&[fields::VOLUME_LIFECYCLE_MODES], vec![Tree::from("Persistent")]);
        }
    }

    // The generation of a driver is incremented by updates, but not set on create.
    fn prepare_update(driver: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        if driver.get(fields::SPEC) != old.get(fields::SPEC) {
            meta::set(driver, fields::GENERATION, meta::int(old, fields::GENERATION) + 1);
        }
    }

    fn validate(driver: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = driver.at(fields::SPEC);
        let policy = spec.at(fields::FS_GROUP_POLICY);
        if policy.is_set() && !FS_GROUP_POLICIES.contains(&policy.str()) {
            policy.not_supported(FS_GROUP_POLICIES);
        }
        validate_token_requests(&spec.at(fields::TOKEN_REQUESTS));
        let modes = spec.at(fields::VOLUME_LIFECYCLE_MODES);
        for mode in modes.strs().filter(|mode| !LIFECYCLE_MODES.contains(mode)) {
            modes.errors().not_supported(mode, LIFECYCLE_MODES);
        }
        let period = spec.at(fields::NODE_ALLOCATABLE_UPDATE_PERIOD_SECONDS);
        if period.is_set() && period.int() < 10 {
            period.invalid("must be greater than or equal to 10 seconds");
        }
        let in_secrets = spec.at(fields::SERVICE_ACCOUNT_TOKEN_IN_SECRETS);
        if in_secrets.is_set() && spec.at(fields::TOKEN_REQUESTS).is_empty() {
            in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified");
        }
    }

    fn validate_update(driver: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let (spec, old) = (driver.at(fields::SPEC), old.at(fields::SPEC));
        let attach = spec.at(fields::ATTACH_REQUIRED);
        let field = spec.errors().at("attachedRequired");
        attach
            .with_errors(field)
            .immutable(&old.at(fields::ATTACH_REQUIRED));
        spec.at(fields::VOLUME_LIFECYCLE_MODES)
            .immutable(&old.at(fields::VOLUME_LIFECYCLE_MODES));
    }

    fn warnings(driver: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let spec = driver.at(fields::SPEC);
        let requests = spec.at(fields::TOKEN_REQUESTS);
        let same = old.is_some_and(|old| requests.is_same(&old.at(fields::SPEC).at(fields::TOKEN_REQUESTS)));
        if same || requests.is_empty() || spec.at(fields::SERVICE_ACCOUNT_TOKEN_IN_SECRETS).is_set() {
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
        let (audience, seconds) = (
            request.at(fields::AUDIENCE),
            request.at(fields::EXPIRATION_SECONDS),
        );
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
    Cell::Boolean(driver.at(fields::SPEC).at(field).bool())
}

fn audiences(driver: &FieldRef<'_>) -> String {
    let requests = driver.at(fields::SPEC).at(fields::TOKEN_REQUESTS);
    if !requests.is_set() {
        return UNSET.to_owned();
    }
    let audiences: Vec<&str> = requests
        .items()
        .map(|request| request.at(fields::AUDIENCE).str())
        .collect();
    audiences.join(",")
}
