//! The status of a CSR: its conditions and the certificate.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, RequestFacts, meta};
use setpoint_x509::Certificate;

use crate::certificates::pem;

/// Conditions that are either absent or `True`.
const DECISIONS: &[&str] = &["Approved", "Denied", "Failed"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

/// Which fields of the status an update may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowedChange {
    /// None: neither conditions nor the certificate.
    Nothing,
    /// The `Approved` and `Denied` conditions.
    Approval,
    /// The certificate.
    Certificate,
}

/// The `Condition` column of the table.
pub(super) fn condition_column(status: &FieldRef<'_>) -> String {
    let has = |kind: &str| conditions(status.value(), kind).next().is_some();
    let mut word = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        word.push_str(",Failed");
    }
    if !status.at(fields::CERTIFICATE).is_empty() {
        word.push_str(",Issued");
    }
    word
}

/// Keeps the approval conditions, unless one was added or removed; validation rejects that.
pub(super) fn keep_approval_conditions(request: &mut Tree, old: &Tree) {
    let null = Tree::Null;
    let old = old.get(fields::STATUS).unwrap_or(&null);
    for kind in &DECISIONS[..2] {
        let before: Vec<&Tree> = conditions(old, kind).collect();
        let Some(status) = request.get_mut(fields::STATUS) else {
            return;
        };
        if conditions(status, kind).count() == before.len() {
            let same = status
                .items_mut(fields::CONDITIONS)
                .filter(|item| item.str_at(&[fields::TYPE]) == Some(kind));
            same.zip(before)
                .for_each(|(condition, before)| condition.clone_from(before));
        }
    }
}

/// Sets missing times of conditions.
pub(super) fn default_condition_times(request: &mut Tree, old: &Tree, facts: &RequestFacts) {
    let now = meta::timestamp(facts.now);
    let null = Tree::Null;
    let old = old.get(fields::STATUS).unwrap_or(&null);
    let Some(status) = request.get_mut(fields::STATUS) else {
        return;
    };
    for condition in status.items_mut(fields::CONDITIONS) {
        condition.set_default(fields::LAST_UPDATE_TIME, now.clone());
        let kind = condition.str_at(&[fields::TYPE]).unwrap_or_default();
        let same =
            conditions(old, kind).find(|before| before.get(fields::STATUS) == condition.get(fields::STATUS));
        let changed = same
            .and_then(|before| before.get(fields::LAST_TRANSITION_TIME))
            .cloned();
        condition.set_default(
            fields::LAST_TRANSITION_TIME,
            changed.unwrap_or_else(|| now.clone()),
        );
    }
}

/// Validates a status by itself. An update may keep what the old object already violates.
pub(super) fn validate(status: &FieldRef<'_>, old: &FieldRef<'_>) {
    validate_conditions(&status.at(fields::CONDITIONS), &old.at(fields::CONDITIONS));
    let (certificate, before) = (status.at(fields::CERTIFICATE), old.at(fields::CERTIFICATE));
    let tolerated =
        before.is_set() && (certificate.is_same(&before) || check_certificate(before.str()).is_err());
    if let Err(why) = check_certificate(certificate.str())
        && !tolerated
    {
        certificate.invalid_as("<certificate data>", &why);
    }
    if has(&old.at(fields::CONDITIONS), "Approved") && has(&old.at(fields::CONDITIONS), "Denied") {
        return;
    }
    if has(&status.at(fields::CONDITIONS), "Approved") && has(&status.at(fields::CONDITIONS), "Denied") {
        status.at(fields::CONDITIONS).invalid_as(
            "{Approved, Denied}",
            "must specify at most one of: `Approved`, `Denied`",
        );
    }
}

/// Reports changes of conditions or of the certificate that this kind of update may not make.
pub(super) fn validate_update(request: &FieldRef<'_>, old: &FieldRef<'_>, may: AllowedChange) {
    let (status, old) = (request.at(fields::STATUS), old.at(fields::STATUS));
    let count = |status: &FieldRef<'_>, kind: &str| conditions(status.value(), kind).count();
    for kind in DECISIONS {
        if count(&status, kind) < count(&old, kind) {
            let why = format!("updates may not remove a condition of type {kind:?}");
            status.at(fields::CONDITIONS).forbidden(&why);
        }
    }
    if may != AllowedChange::Approval {
        for kind in &DECISIONS[..2] {
            if count(&status, kind) > count(&old, kind) {
                let why = format!("updates may not add a condition of type {kind:?}");
                status.at(fields::CONDITIONS).forbidden(&why);
            }
        }
    }
    let (certificate, before) = (status.at(fields::CERTIFICATE), old.at(fields::CERTIFICATE));
    if !certificate.is_same(&before) {
        if may != AllowedChange::Certificate {
            certificate.forbidden("updates may not set certificate content");
        } else if !before.is_empty() {
            certificate.forbidden("updates may not modify existing certificate content");
        }
    }
}

fn validate_conditions(conditions: &FieldRef<'_>, old: &FieldRef<'_>) {
    let kinds: Vec<&str> = conditions
        .items()
        .map(|item| item.at(fields::TYPE).str())
        .collect();
    let had: Vec<&str> = old.items().map(|item| item.at(fields::TYPE).str()).collect();
    let before: HashSet<&str> = had.iter().copied().collect();
    let may_repeat = before.len() < had.len();
    let mut seen = HashSet::new();
    for (at, condition) in conditions.items().enumerate() {
        if !before.contains("") {
            condition.at(fields::TYPE).require();
        }
        let decides = DECISIONS.contains(&kinds[at]);
        let allowed = if decides { &STATUSES[1..2] } else { STATUSES };
        condition.at(fields::STATUS).require_one_of(allowed);
        let is_new = seen.insert(kinds[at]);
        if !may_repeat && !is_new {
            condition.at(fields::TYPE).duplicate();
        }
    }
}

fn has(conditions: &FieldRef<'_>, kind: &str) -> bool {
    conditions.items().any(|item| item.at(fields::TYPE).str() == kind)
}

fn conditions<'a>(status: &'a Tree, kind: &str) -> impl Iterator<Item = &'a Tree> {
    let items = status.items(fields::CONDITIONS).iter();
    items.filter(move |item| item.str_at(&[fields::TYPE]).unwrap_or_default() == kind)
}

/// Checks that the bytes are PEM certificates and nothing else.
fn check_certificate(base64: &str) -> Result<(), String> {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(());
    }
    let blocks = pem::blocks(&String::from_utf8_lossy(&bytes));
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {:?}",
                block.label
            ));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        Certificate::from_der(&block.bytes).map_err(|_| "x509: malformed certificate".to_owned())?;
    }
    Ok(())
}
