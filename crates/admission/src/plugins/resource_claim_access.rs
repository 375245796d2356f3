//! ResourceClaimAccess: who may request admin access to devices, and who may write which part of a claim's status.
//!
//! It is no plugin upstream, but rules of the kinds; they are in `pkg/registry/resource/utils.go` in Kubernetes.

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::field::Errors;
use setpoint_api::{GroupResource, Key, Status, User};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use crate::chain::{AccessAttributes, AccessChecker, Plugin};
use crate::review;

const GROUP: &str = "resource.k8s.io";
const CLAIMS: &str = "resourceclaims";
/// The label of namespaces whose claims may have admin access.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Checks writes of ResourceClaims and their templates.
#[derive(Debug)]
pub(crate) struct ResourceClaimAccess(pub(crate) Option<Arc<dyn AccessChecker>>);

impl Plugin for ResourceClaimAccess {
    fn name(&self) -> &'static str {
        "ResourceClaimAccess"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.kind.gvr.group != GROUP {
            return Ok(());
        }
        let Some(new) = review.object.as_deref() else {
            return Ok(());
        };
        let errors = Errors::default();
        match (
            review.operation,
            review.subresource,
            review.kind.gvr.resource.as_str(),
        ) {
            (Operation::Create, None, CLAIMS) => check_spec(review, &errors, new.get(fields::SPEC)),
            (Operation::Create, None, "resourceclaimtemplates") => {
                check_spec(review, &errors, new.at(&[fields::SPEC, fields::SPEC]));
            }
            (Operation::Update, Some("status"), CLAIMS) => self.check_status(review, &errors, new),
            _ => {}
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid(&review.kind.gvk, review.name, &errors.into_vec())),
        }
    }
}

impl ResourceClaimAccess {
    fn check_status(&self, review: &Review<'_>, errors: &Errors, new: &Tree) {
        let old = review.decode_old().unwrap_or_default();
        let part =
            |claim: &Tree, field: &str| claim.at(&[fields::STATUS, field]).cloned().unwrap_or_default();
        if results(&old).all(|result| !has_admin_access(result)) {
            let requested = results(new).position(has_admin_access);
            if let Some(index) = requested.filter(|_| !is_admin_namespace(review)) {
                let results = errors
                    .at(fields::STATUS)
                    .at(fields::ALLOCATION)
                    .at(fields::DEVICES);
                results
                    .at(fields::RESULTS)
                    .index(index)
                    .at(fields::ADMIN_ACCESS)
                    .forbidden(&admin_required());
            }
        }
        let is_same = |field: &str| part(&old, field).semantic_eq(&part(new, field));
        if !is_same(fields::ALLOCATION) || !is_same(fields::RESERVED_FOR) {
            self.check_binding(review, errors);
        }
        if !part(new, fields::ALLOCATION).is_null() {
            self.check_devices(review, errors, &old, new);
        }
    }

    /// Allocating and reserving a claim is what the scheduler does.
    fn check_binding(&self, review: &Review<'_>, errors: &Errors) {
        let verb = review.verb.as_str();
        if let Err(reason) = self.require(review, verb, ("binding", "", "")) {
            errors.at(fields::STATUS).at(fields::ALLOCATION).forbidden(&format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
                 verb=\"{verb}\" permission: {reason}"
            ));
        }
    }

    /// The status of devices is written by their drivers, of any node or of the node that the claim is allocated on.
    fn check_devices(&self, review: &Review<'_>, errors: &Errors, old: &Tree, new: &Tree) {
        let mut verbs = vec![format!("arbitrary-node:{}", review.verb)];
        if allocated_node(new).is_some_and(|node| runs_on(review.user, node)) {
            verbs.insert(0, format!("associated-node:{}", review.verb));
        }
        for driver in changed_drivers(old, new) {
            let subject = ("driver", review.namespace, driver);
            let denial = |verb: &String| self.require(review, verb, subject).err();
            let denials: Vec<String> = verbs.iter().filter_map(denial).collect();
            if let Some(reason) = denials.first().filter(|_| denials.len() == verbs.len()) {
                errors.at(fields::STATUS).at(fields::DEVICES).forbidden(&format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: \
                     {reason}",
                    verbs.join(" ")
                ));
            }
        }
    }

    /// Requires a permission on a subresource of claims that exists in RBAC rules only.
    fn require(
        &self,
        review: &Review<'_>,
        verb: &str,
        (subresource, namespace, name): (&str, &str, &str),
    ) -> Result<(), String> {
        let attributes = AccessAttributes {
            verb,
            group: GROUP,
            resource: CLAIMS,
            subresource,
            namespace,
            name,
        };
        let access = self.0.as_deref();
        if access.is_none_or(|access| access.is_allowed(review.user, &attributes)) {
            return Ok(());
        }
        let scope = match namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let resource = GroupResource::new(GROUP, CLAIMS);
        let why = format!(
            "User {:?} cannot {verb} resource \"{CLAIMS}/{subresource}\" in API group {GROUP:?} {scope}",
            review.user.name
        );
        Err(Status::forbidden(&resource, name, &why).message)
    }
}

/// Checks the requests of a claim for admin access, which an administrator allows for a namespace.
fn check_spec(review: &Review<'_>, errors: &Errors, spec: Option<&Tree>) {
    let devices = spec.and_then(|spec| spec.get(fields::DEVICES));
    let requests = devices.map_or(&[][..], |devices| devices.items(fields::REQUESTS));
    let is_admin = |request: &Tree| request.get(fields::EXACTLY).is_some_and(has_admin_access);
    let Some(index) = requests.iter().position(is_admin) else {
        return;
    };
    if !is_admin_namespace(review) {
        let requests = errors.at(fields::SPEC).at(fields::DEVICES).at(fields::REQUESTS);
        requests
            .index(index)
            .at(fields::ADMIN_ACCESS)
            .forbidden(&admin_required());
    }
}

fn admin_required() -> String {
    format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace")
}

fn is_admin_namespace(review: &Review<'_>) -> bool {
    let namespace = review.find(
        &GroupResource::new("", "namespaces"),
        &Key::new("", review.namespace),
    );
    namespace.is_some_and(|namespace| namespace.label(ADMIN_LABEL) == Some("true"))
}

fn has_admin_access(request: &Tree) -> bool {
    review::bool_at(request, &[fields::ADMIN_ACCESS])
}

fn results(claim: &Tree) -> impl Iterator<Item = &Tree> {
    let devices = claim.at(&[fields::STATUS, fields::ALLOCATION, fields::DEVICES]);
    devices
        .map_or(&[][..], |devices| devices.items(fields::RESULTS))
        .iter()
}

/// The drivers of the devices whose status is added, removed or changed.
fn changed_drivers<'a>(old: &'a Tree, new: &'a Tree) -> BTreeSet<&'a str> {
    let devices = |claim: &'a Tree| {
        let status = claim.get(fields::STATUS);
        status.map_or(&[][..], |status| status.items(fields::DEVICES))
    };
    let missing = |from: &'a [Tree], other: &'a [Tree]| {
        let is_missing = move |device: &&Tree| !other.iter().any(|one| one.semantic_eq(device));
        from.iter().filter(is_missing)
    };
    let (old, new) = (devices(old), devices(new));
    let changed = missing(new, old).chain(missing(old, new));
    changed
        .map(|device| device.str_at(&[fields::DRIVER]).unwrap_or_default())
        .collect()
}

/// The node that a claim is allocated on, if its selector names exactly one.
fn allocated_node(claim: &Tree) -> Option<&str> {
    let selector = claim.at(&[fields::STATUS, fields::ALLOCATION, fields::NODE_SELECTOR])?;
    let [term] = selector.items(fields::NODE_SELECTOR_TERMS) else {
        return None;
    };
    let ([], [field]) = (
        term.items(fields::MATCH_EXPRESSIONS),
        term.items(fields::MATCH_FIELDS),
    ) else {
        return None;
    };
    let is_name = field.str_at(&[fields::KEY]) == Some("metadata.name")
        && field.str_at(&[fields::OPERATOR]) == Some("In");
    match field.items(fields::VALUES) {
        [node] if is_name => node.as_str().filter(|node| !node.is_empty()),
        _ => None,
    }
}

/// Whether the user is a service account of a pod on the node.
fn runs_on(user: &User, node: &str) -> bool {
    let account = user.name.strip_prefix(ACCOUNT_PREFIX);
    let nodes = user.extra.get(NODE_NAME).map(Vec::as_slice);
    account.is_some_and(|account| account.contains(':')) && matches!(nodes, Some([own]) if own == node)
}
