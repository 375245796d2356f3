//! Pod: containers that run together on one node.
//!
//! The spec is mostly immutable; the kubelet reports the status. Once bound to a node a pod is deleted gracefully: it
//! stays until the kubelet has stopped its containers.
//!
//! Start reading here, then [`spec`] for the rules of pods and pod templates.

pub(crate) mod annotations;
pub(crate) mod spec;
pub(crate) mod template;

mod binding;
mod columns;
mod ephemeral_containers;
mod prepare;
mod qos;
mod resize;
mod status;
mod warnings;

pub(crate) use annotations::MIRROR;

use setpoint_api::Stored;
use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{
    Action, ConnectKind, FieldLabel, FieldRef, Names, NewMember, RequestFacts, Rules, Strategy, Subresource,
    meta, top_level,
};

use self::spec::PodContext;
use self::spec::validation_options::PodValidationOptions;

const ALWAYS: &str = "Always";
/// Fields that admission may have set when the pod was created.
const SET_BY_ADMISSION: &[&str] = &[fields::RESOURCES, fields::PRIORITY, fields::PREEMPTION_POLICY];
/// Status fields that stay unchanged if a status update omits them.
const KEPT_STATUS_FIELDS: &[&str] = &[
    fields::QOS_CLASS,
    fields::RESOURCE_CLAIM_STATUSES,
    fields::EXTENDED_RESOURCE_CLAIM_STATUS,
    fields::NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUSES,
];

#[derive(Debug)]
pub struct Pod;

impl Strategy for Pod {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Pod");
    const NAMES: Names = Names::new("pods", "pod").short(&["po"]).categories(&["all"]);
    const COLUMNS: &'static [Column] = columns::COLUMNS;
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("spec.host", &[&[fields::SPEC, fields::NODE_NAME]]),
        FieldLabel::boolean("spec.hostNetwork", &[&[fields::SPEC, fields::HOST_NETWORK]]),
        FieldLabel::new("spec.nodeName", &[&[fields::SPEC, fields::NODE_NAME]]),
        FieldLabel::new("spec.restartPolicy", &[&[fields::SPEC, fields::RESTART_POLICY]]),
        FieldLabel::new("spec.schedulerName", &[&[fields::SPEC, fields::SCHEDULER_NAME]]),
        FieldLabel::new(
            "spec.serviceAccountName",
            &[&[fields::SPEC, fields::SERVICE_ACCOUNT_NAME]],
        ),
        FieldLabel::new(
            "status.nominatedNodeName",
            &[&[fields::STATUS, fields::NOMINATED_NODE_NAME]],
        ),
        FieldLabel::new("status.phase", &[&[fields::STATUS, fields::PHASE]]),
        FieldLabel::new("status.podIP", &[&[fields::STATUS, fields::POD_IP]]),
        // Accepted as a label, and always empty.
        FieldLabel::new("status.podIPs", &[]),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::connect(ConnectKind::Attach, ("", "v1", "PodAttachOptions")),
        Subresource::action("binding", Action::Bind, ("", "v1", "Binding")),
        Subresource::partial("ephemeralcontainers", ephemeral_containers::RULES),
        Subresource::action("eviction", Action::Evict, ("policy", "v1", "Eviction")),
        Subresource::connect(ConnectKind::Exec, ("", "v1", "PodExecOptions")),
        Subresource::connect(ConnectKind::Log, ("", "", "")),
        Subresource::connect(ConnectKind::PortForward, ("", "v1", "PodPortForwardOptions")),
        Subresource::connect(ConnectKind::Proxy, ("", "v1", "PodProxyOptions")),
        Subresource::partial("resize", resize::RULES),
        Subresource::STATUS,
    ];
    const RULES: Rules = Rules::DEFAULT.returns_deleted().tracks_generation();

    fn default_fields(pod: &mut Tree) {
        let spec = pod.child(fields::SPEC);
        spec::defaults::set_defaults(spec);
        spec::defaults::set_pod_defaults(spec);
        if let Some(status) = pod.find_mut(fields::STATUS) {
            sync_pod_ips(status);
        }
    }

    fn prepare_create(pod: &mut Tree, _facts: &RequestFacts) {
        prepare::set_first_status(pod);
        prepare::merge_label_keys(pod);
        prepare::copy_app_armor_annotations(pod);
        let spec = pod.child(fields::SPEC);
        spec::pod_resources::set_defaults(spec);
        let class = qos::class(spec);
        pod.set(&[fields::STATUS, fields::QOS_CLASS], class);
    }

    fn prepare_update(pod: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(pod, old, fields::STATUS);
        keep_unset(pod.child(fields::SPEC), old.get(fields::SPEC), SET_BY_ADMISSION);
    }

    fn prepare_status(pod: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(pod, old, fields::SPEC);
        meta::copy(pod, old, fields::OWNER_REFERENCES);
        keep_unset(
            pod.child(fields::STATUS),
            old.get(fields::STATUS),
            KEPT_STATUS_FIELDS,
        );
        status::keep_observed(pod.child(fields::STATUS), old.get(fields::STATUS));
    }

    fn apply_action(pod: &mut Tree, action: Action, body: &Tree, facts: &RequestFacts) {
        if action == Action::Bind {
            binding::bind(pod, body, facts.now);
        }
    }

    fn new_members_of_action(
        action: Action,
        pod: &Stored,
        body: &Tree,
        facts: &RequestFacts,
    ) -> Option<Vec<NewMember>> {
        match action {
            Action::Bind => binding::new_members(pod, body, facts.now),
            Action::Evict => None,
        }
    }

    fn validate(pod: &FieldRef<'_>, facts: &RequestFacts) {
        let spec = pod.at(fields::SPEC);
        validate_with(pod, PodValidationOptions::default(), facts);
        let ephemeral = spec.at(fields::EPHEMERAL_CONTAINERS);
        if !ephemeral.is_empty() {
            ephemeral.forbidden("cannot be set on create");
        }
        if !spec.at(fields::NODE_NAME).is_empty() && !spec.at(fields::SCHEDULING_GATES).is_empty() {
            spec.at(fields::NODE_NAME)
                .forbidden("cannot be set until all schedulingGates have been cleared");
        }
        annotations::validate_match(&pod.at(fields::METADATA).at(fields::ANNOTATIONS), &spec);
    }

    fn validate_for_update(pod: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        let errors = Errors::default();
        validate_with(
            &pod.with_errors(errors.clone()),
            PodValidationOptions::default(),
            facts,
        );
        if !errors.is_empty() {
            let annotations = old.at(fields::METADATA).at(fields::ANNOTATIONS);
            validate_with(
                pod,
                PodValidationOptions::for_update(&old.at(fields::SPEC), &annotations),
                facts,
            );
        }
    }

    fn validate_update(pod: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_annotations(pod, old);
        spec::update::validate(&pod.at(fields::SPEC), &old.at(fields::SPEC));
    }

    fn validate_status(pod: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_annotations(pod, old);
        let (annotations, before) = (
            pod.at(fields::METADATA).at(fields::ANNOTATIONS),
            old.at(fields::METADATA).at(fields::ANNOTATIONS),
        );
        annotations::validate(
            &annotations,
            &pod.at(fields::SPEC),
            !annotations::is_deletion_cost(&before),
        );
        status::validate(pod, old);
    }

    fn warnings(pod: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        match old {
            None => warnings::of_pod(pod),
            Some(_) => Vec::new(),
        }
    }

    // Only a pod that a kubelet may have started gets a grace period.
    fn grace_period(pod: &Tree, requested: Option<i64>) -> Option<i64> {
        let spec_seconds = pod.at(&[fields::SPEC, fields::TERMINATION_GRACE_PERIOD_SECONDS]);
        let seconds = requested
            .or(spec_seconds.and_then(Tree::as_i64))
            .unwrap_or_default();
        let bound = pod
            .str_at(&[fields::SPEC, fields::NODE_NAME])
            .is_some_and(|node| !node.is_empty());
        let over = matches!(
            pod.str_at(&[fields::STATUS, fields::PHASE]),
            Some("Succeeded" | "Failed")
        );
        Some(match seconds {
            _ if !bound || over => 0,
            ..0 => 1,
            seconds => seconds,
        })
    }
}

/// Fields that are absent keep their old values.
fn keep_unset(new: &mut Tree, old: Option<&Tree>, fields: &[&str]) {
    for field in fields {
        if let Some(before) = old.and_then(|old| old.get(field)) {
            new.set_default(field, before.clone());
        }
    }
}

/// Makes `podIP` the first of `podIPs`; the list takes precedence.
fn sync_pod_ips(status: &mut Tree) {
    let first = status.items(fields::POD_IPS).first();
    let first = first.and_then(|ip| ip.get(fields::IP)).cloned();
    match status.get(fields::POD_IP).filter(|ip| !ip.is_null()).cloned() {
        Some(ip) if first.as_ref() != Some(&ip) => {
            let ip: Map = [(fields::IP, ip)].into_iter().collect();
            status.set(&[fields::POD_IPS], vec![Tree::from(ip)]);
        }
        Some(_) => {}
        None => {
            if let Some(first) = first {
                status.set(&[fields::POD_IP], first);
            }
        }
    }
}

/// Validates a pod, new or updated. Metadata is validated before.
fn validate_with(pod: &FieldRef<'_>, options: PodValidationOptions, facts: &RequestFacts) {
    let (metadata, spec) = (pod.at(fields::METADATA), pod.at(fields::SPEC));
    annotations::validate(&metadata.at(fields::ANNOTATIONS), &spec, options.deletion_cost);
    let pod_context = PodContext {
        pod: Some(metadata),
        options,
        allow_privileged: facts.allow_privileged,
    };
    spec::validate(&spec, &pod_context);
    if spec.at(fields::SERVICE_ACCOUNT_NAME).is_empty() {
        forbid_tokens(&spec.at(fields::VOLUMES));
    }
    spec.at(fields::TERMINATION_GRACE_PERIOD_SECONDS).not_negative();
    for list in [fields::CONTAINERS, fields::INIT_CONTAINERS] {
        for container in spec.at(list).items() {
            spec::validate_image(&container);
        }
    }
}

/// A pod without a service account cannot have its tokens.
fn forbid_tokens(volumes: &FieldRef<'_>) {
    let sources = volumes
        .items()
        .flat_map(|volume| volume.at(fields::PROJECTED).at(fields::SOURCES).items());
    for token in sources.map(|source| source.at(fields::SERVICE_ACCOUNT_TOKEN)) {
        if token.is_set() {
            token.forbidden("must not be specified when serviceAccountName is not set");
        }
    }
}

fn validate_annotations(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    annotations::validate_update(
        &pod.at(fields::METADATA).at(fields::ANNOTATIONS),
        &old.at(fields::METADATA).at(fields::ANNOTATIONS),
    );
}
