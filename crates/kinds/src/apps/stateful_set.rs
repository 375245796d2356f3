//! StatefulSet: pods with stable names, each with its own persistent volume claims.

use std::collections::HashSet;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldRef, NameRule, Names, RequestFacts, Rules, Strategy, Subresource, label_selector, name,
};

use super::{pods, status_counts};
use crate::core::persistent_volume_claim::{self, PersistentVolumeClaim};
use crate::core::pod::template;
use crate::shared::int_or_percent;

const ROLLING_UPDATE: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
const RETAIN: &str = "Retain";
const POLICIES: &[&str] = &["OrderedReady", "Parallel"];

#[derive(Debug)]
pub struct StatefulSet;

/// Which fields of a set are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValidationScope {
    /// A new set: all of them.
    All,
    /// An updated set: only fields that may change.
    Mutable,
    /// An updated set whose old spec is already invalid: the template is not validated either.
    ExceptTemplate,
}

impl Strategy for StatefulSet {
    const KIND: (&'static str, &'static str, &'static str) = ("apps", "v1", "StatefulSet");
    const NAMES: Names = Names::new("statefulsets", "statefulset")
        .short(&["sts"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Ready", |set, _| {
            let ready = set.at(fields::STATUS).at(fields::READY_REPLICAS).int();
            let desired = set.at(fields::SPEC).at(fields::REPLICAS).int();
            Cell::from(format!("{ready}/{desired}"))
        })
        .description("The number of ready pods, of those desired."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.name(NameRule::Label).tracks_generation();

    fn default_fields(set: &mut Tree) {
        let spec = set.child(fields::SPEC);
        spec.set_default(fields::POD_MANAGEMENT_POLICY, POLICIES[0]);
        spec.set_default(fields::REPLICAS, 1);
        spec.set_default(fields::REVISION_HISTORY_LIMIT, 10);
        default_strategy(spec.child(fields::UPDATE_STRATEGY));
        let retention = spec.child(fields::PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY);
        retention.set_default(fields::WHEN_DELETED, RETAIN);
        retention.set_default(fields::WHEN_SCALED, RETAIN);
        spec.items_mut(fields::VOLUME_CLAIM_TEMPLATES)
            .for_each(default_claim);
        template::set_defaults(spec.child(fields::TEMPLATE));
    }

    fn validate(set: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&set.at(fields::SPEC), None, ValidationScope::All, facts);
    }

    fn validate_for_update(set: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        let errors = Errors::default();
        let before = old.at(fields::SPEC);
        validate_spec(
            &before.with_errors(errors.clone()),
            Some(&before),
            ValidationScope::Mutable,
            facts,
        );
        let depth = match errors.is_empty() {
            true => ValidationScope::Mutable,
            false => ValidationScope::ExceptTemplate,
        };
        validate_spec(&set.at(fields::SPEC), Some(&before), depth, facts);
    }

    fn validate_update(set: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        for field in [
            fields::SELECTOR,
            fields::VOLUME_CLAIM_TEMPLATES,
            fields::SERVICE_NAME,
            fields::POD_MANAGEMENT_POLICY,
        ] {
            set.at(fields::SPEC)
                .at(field)
                .immutable(&old.at(fields::SPEC).at(field));
        }
    }

    fn validate_status(set: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = set.at(fields::STATUS);
        let of_replicas = [
            fields::READY_REPLICAS,
            fields::CURRENT_REPLICAS,
            fields::UPDATED_REPLICAS,
            fields::AVAILABLE_REPLICAS,
        ];
        status_counts::validate(&status, &[fields::REPLICAS]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(&status, &[fields::OBSERVED_GENERATION, fields::COLLISION_COUNT]);
        status_counts::validate_within(&status, &of_replicas);
        status_counts::validate_available(&status, "cannot be greater than status.readyReplicas");
        status_counts::validate_collisions(&status, &old.at(fields::STATUS));
    }

    fn warnings(set: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = pods::template_warnings(
            &set.at(fields::SPEC),
            old.map(|old| old.at(fields::SPEC)).as_ref(),
        );
        if set.at(fields::SPEC).at(fields::REVISION_HISTORY_LIMIT).int() < 0 {
            let advice = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {advice}"));
        }
        warnings
    }
}

/// Defaults the update strategy to RollingUpdate, with partition 0.
fn default_strategy(strategy: &mut Tree) {
    if strategy.str_at(&[fields::TYPE]).unwrap_or_default().is_empty() {
        strategy.set(&[fields::TYPE], ROLLING_UPDATE);
        strategy.child(fields::ROLLING_UPDATE);
    }
    if strategy.str_at(&[fields::TYPE]) == Some(ROLLING_UPDATE)
        && let Some(rolling) = strategy.find_mut(fields::ROLLING_UPDATE)
    {
        rolling.set_default(fields::PARTITION, 0);
        rolling.set_default(fields::MAX_UNAVAILABLE, 1);
    }
}

/// Defaults `apiVersion` and `kind` of a claim template, whatever the caller set.
fn default_claim(claim: &mut Tree) {
    claim.set(&[fields::API_VERSION], "v1");
    claim.set(&[fields::KIND], "PersistentVolumeClaim");
    PersistentVolumeClaim::default_fields(claim);
}

fn validate_spec(
    spec: &FieldRef<'_>,
    old: Option<&FieldRef<'_>>,
    depth: ValidationScope,
    facts: &RequestFacts,
) {
    let policy = spec.at(fields::POD_MANAGEMENT_POLICY);
    if policy.require() && !POLICIES.contains(&policy.str()) {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    validate_strategy(&spec.at(fields::UPDATE_STRATEGY));
    let retention = spec.at(fields::PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY);
    if retention.is_set() {
        for when in [fields::WHEN_DELETED, fields::WHEN_SCALED] {
            if ![RETAIN, "Delete"].contains(&retention.at(when).str()) {
                retention.at(when).not_supported(&[RETAIN, "Delete"]);
            }
        }
    }
    if depth == ValidationScope::All {
        for claim in spec.at(fields::VOLUME_CLAIM_TEMPLATES).items() {
            persistent_volume_claim::validate_spec(&claim.at(fields::SPEC));
        }
    }
    spec.at(fields::REPLICAS).not_negative();
    spec.at(fields::MIN_READY_SECONDS).not_negative();
    spec.at(fields::ORDINALS).at(fields::START).not_negative();
    let service = spec.at(fields::SERVICE_NAME);
    if depth == ValidationScope::All && !service.is_empty() {
        name::check(&service, name::check_dns1123_label);
    }
    pods::validate_selector(
        &spec.at(fields::SELECTOR),
        "empty selector is invalid for statefulset",
    );
    validate_template(spec, old, depth, facts);
}

fn validate_strategy(strategy: &FieldRef<'_>) {
    let rolling = strategy.at(fields::ROLLING_UPDATE);
    match strategy.at(fields::TYPE).str() {
        "" => strategy.required(""),
        ON_DELETE if rolling.is_set() => {
            rolling.invalid("only allowed for updateStrategy 'RollingUpdate'");
        }
        ON_DELETE => {}
        ROLLING_UPDATE => validate_rolling(&rolling),
        _ => strategy.invalid("must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn validate_rolling(rolling: &FieldRef<'_>) {
    rolling.at(fields::PARTITION).not_negative();
    let unavailable = rolling.at(fields::MAX_UNAVAILABLE);
    if unavailable.is_set() {
        int_or_percent::validate(&unavailable);
        if int_or_percent::number(&unavailable) == 0 {
            unavailable.invalid("cannot be 0");
        }
        int_or_percent::validate_most(&unavailable);
    }
}

fn validate_template(
    spec: &FieldRef<'_>,
    old: Option<&FieldRef<'_>>,
    depth: ValidationScope,
    facts: &RequestFacts,
) {
    let (selector, template) = (spec.at(fields::SELECTOR), spec.at(fields::TEMPLATE));
    let labels = template.at(fields::METADATA).at(fields::LABELS);
    match label_selector::selects(&selector, &labels) {
        None => selector.invalid(""),
        Some(selected) => {
            if !selected {
                labels.invalid(pods::MISMATCH);
            }
            if depth != ValidationScope::ExceptTemplate {
                validate_pods(spec, &template, old, facts);
            }
        }
    }
    template::require_always_restart(&template);
    pods::forbid_deadline(&template, "StatefulSet");
}

/// Validates the template as its pods will be: the controller sets their host names, and each claim is a volume.
fn validate_pods(
    spec: &FieldRef<'_>,
    template: &FieldRef<'_>,
    old: Option<&FieldRef<'_>>,
    facts: &RequestFacts,
) {
    let claims = spec.at(fields::VOLUME_CLAIM_TEMPLATES);
    let named = |field: &str| !template.at(fields::SPEC).at(field).is_empty();
    if claims.is_empty() && !named(fields::SUBDOMAIN) && !named(fields::HOSTNAME) {
        return pods::validate_template(template, old, facts);
    }
    let mut made = template.value().clone();
    let pod = made.child(fields::SPEC);
    pod.take(&[fields::SUBDOMAIN]);
    pod.take(&[fields::HOSTNAME]);
    let names: Vec<&str> = claims
        .items()
        .map(|claim| claim.at(fields::METADATA).at(fields::NAME).str())
        .collect();
    let mut volumes: Vec<Tree> = names.iter().map(|name| claim_volume(name)).collect();
    let template_volumes = template
        .value()
        .at(&[fields::SPEC])
        .map_or(&[][..], |spec| spec.items(fields::VOLUMES));
    let taken: HashSet<&str> = names.iter().copied().collect();
    let hidden = |volume: &&Tree| !taken.contains(volume.str_at(&[fields::NAME]).unwrap_or_default());
    volumes.extend(template_volumes.iter().filter(hidden).cloned());
    pod.set(&[fields::VOLUMES], volumes);
    let shape = template.shape().expect("a template has a shape");
    pods::validate_template(&FieldRef::new(&made, shape, template.errors()), old, facts);
}

fn claim_volume(name: &str) -> Tree {
    let source: Map = [(fields::CLAIM_NAME, name)].into_iter().collect();
    let volume: Map = [
        (fields::NAME, Tree::from(name)),
        (fields::PERSISTENT_VOLUME_CLAIM, Tree::from(source)),
    ]
    .into_iter()
    .collect();
    volume.into()
}
