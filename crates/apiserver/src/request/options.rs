//! Options from the query, with Kubernetes' words for what is wrong with them.
//!
//! A value that cannot be read is a bad request; values that contradict each other are an invalid options object. The
//! order of the checks is the order in which a caller is told.

use std::time::Duration;

use setpoint_api::field::Errors;
use setpoint_api::options::{
    FieldValidation, GetOptions, ListOptions, PatchType, VersionMatch, WatchOptions, WriteOptions,
};
use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_api::{Gvk, ResourceVersion, Status};

use super::query::Query;

/// How long a field manager's name may be.
const MANAGER_BYTES: usize = 128;

/// What went wrong, boxed to keep the good case small.
pub type Refused = Box<Status>;

/// Options of a read of one object.
pub fn get(query: &Query<'_>) -> Result<GetOptions, Refused> {
    Ok(GetOptions {
        resource_version: resource_version(query).map_err(unreadable_version)?,
    })
}

/// Options of a list.
pub fn list(query: &Query<'_>) -> Result<ListOptions, Refused> {
    let Numbers { limit, .. } = numbers(query)?;
    let (labels, fields) = selectors(query)?;
    check_list(query)?;
    Ok(ListOptions {
        labels,
        fields,
        limit: u64::try_from(limit).ok().filter(|limit| *limit > 0),
        continue_token: query.text("continue").map(str::to_owned),
        resource_version: resource_version(query)?,
        version_match: version_match(query),
    })
}

/// Options of a watch. `default_timeout` is for callers who name none.
pub fn watch(query: &Query<'_>, default_timeout: Duration) -> Result<WatchOptions, Refused> {
    let Numbers { timeout, .. } = numbers(query)?;
    let (labels, fields) = selectors(query)?;
    check_watch(query)?;
    let timeout = u64::try_from(timeout)
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs);
    Ok(WatchOptions {
        labels,
        fields,
        resource_version: resource_version(query).map_err(unreadable_version)?,
        version_match: version_match(query),
        bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
        send_initial_events: query.flag("sendInitialEvents"),
        timeout: Some(timeout.unwrap_or(default_timeout)),
    })
}

/// Options of a create or an update. `kind` is the options object's name; `agent` stands in for the field manager.
pub fn write(query: &Query<'_>, kind: &str, agent: &str) -> Result<WriteOptions, Refused> {
    let errors = Errors::default();
    let options = read_write(query, agent, &errors);
    refuse_invalid(kind, errors)?;
    Ok(options)
}

/// Options of a patch.
pub fn patch(query: &Query<'_>, patch_type: PatchType, agent: &str) -> Result<WriteOptions, Refused> {
    let errors = Errors::default();
    if patch_type == PatchType::Apply {
        if query.text("fieldManager").is_none() {
            errors.at("fieldManager").required("is required for apply patch");
        }
    } else if query.find("force").is_some() {
        errors
            .at("force")
            .forbidden("may not be specified for non-apply patch");
    }
    let options = read_write(query, agent, &errors);
    refuse_invalid("PatchOptions", errors)?;
    Ok(options)
}

fn read_write(query: &Query<'_>, agent: &str, errors: &Errors) -> WriteOptions {
    let manager = query.text("fieldManager");
    if let Some(manager) = manager {
        check_manager(manager, &errors.at("fieldManager"));
    }
    WriteOptions {
        dry_run: dry_run(&query.all("dryRun").collect::<Vec<_>>(), errors),
        field_manager: Some(manager.unwrap_or_else(|| manager_of(agent)).to_owned()),
        field_validation: field_validation(query, errors),
        force: query.flag("force").unwrap_or_default(),
    }
}

/// Reads `dryRun`, which may be given several times but only ever says `All`.
pub(super) fn dry_run(values: &[&str], errors: &Errors) -> bool {
    if values.iter().any(|value| *value != "All") {
        errors.at("dryRun").not_supported(values, &["All"]);
    }
    !values.is_empty()
}

fn field_validation(query: &Query<'_>, errors: &Errors) -> FieldValidation {
    match query.text("fieldValidation") {
        None | Some("Warn") => FieldValidation::Warn,
        Some("Ignore") => FieldValidation::Ignore,
        Some("Strict") => FieldValidation::Strict,
        Some(other) => {
            errors
                .at("fieldValidation")
                .not_supported(other, &["", "Ignore", "Strict", "Warn"]);
            FieldValidation::Warn
        }
    }
}

fn check_manager(manager: &str, errors: &Errors) {
    if manager.len() > MANAGER_BYTES {
        errors.too_long(MANAGER_BYTES);
    }
    if let Some((at, bad)) = manager
        .char_indices()
        .find(|(_, character)| character.is_control())
    {
        errors.invalid(
            manager,
            &format!("invalid character {} (at position {at})", code_point(bad)),
        );
    }
}

fn code_point(character: char) -> String {
    format!("U+{:04X}", u32::from(character))
}

/// The name of the program in a user agent: what stands before the first slash.
fn manager_of(agent: &str) -> &str {
    match agent.split('/').next() {
        None | Some("") => "unknown",
        Some(name) => name,
    }
}

/// The numbers of a list or a watch. Each is read by both, and the timeout first.
struct Numbers {
    timeout: i64,
    limit: i64,
}

fn numbers(query: &Query<'_>) -> Result<Numbers, Refused> {
    Ok(Numbers {
        timeout: integer(query, "timeoutSeconds")?.unwrap_or_default(),
        limit: integer(query, "limit")?.unwrap_or_default(),
    })
}

fn selectors(query: &Query<'_>) -> Result<(LabelSelector, FieldSelector), Refused> {
    let labels = query.text("labelSelector").map(str::parse).transpose();
    let labels: Option<LabelSelector> = labels.map_err(|error| bad_request(&error))?;
    let fields = query.text("fieldSelector").map(str::parse).transpose();
    let fields: Option<FieldSelector> = fields.map_err(|error| bad_request(&error))?;
    Ok((labels.unwrap_or_default(), fields.unwrap_or_default()))
}

/// Reads a whole number, as strict as Go is and with its words.
pub(crate) fn integer(query: &Query<'_>, name: &str) -> Result<Option<i64>, Refused> {
    let Some(text) = query.find(name) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
        bad_request(&format!(
            "strconv.ParseInt: parsing {text:?}: {}",
            number_problem(&error)
        ))
    })
}

fn resource_version(query: &Query<'_>) -> Result<Option<ResourceVersion>, Refused> {
    let Some(text) = query.text("resourceVersion") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(version) if !text.starts_with('+') => Ok(Some(version)),
        Ok(_) => Err(bad_resource_version(text, "invalid syntax")),
        Err(error) => Err(bad_resource_version(text, number_problem(&error))),
    }
}

/// A version that a watch or a read of one object cannot read fails as something unforeseen does, without the words a
/// list is refused with.
fn unreadable_version(refused: Refused) -> Refused {
    let message = refused
        .message
        .trim_start_matches("invalid resource version: ")
        .to_owned();
    Box::new(Status {
        message,
        reason: String::new(),
        code: 500,
        ..*refused
    })
}

fn bad_resource_version(text: &str, problem: &str) -> Refused {
    let found = format!("strconv.ParseUint: parsing {text:?}: {problem}");
    bad_request(&format!(
        "invalid resource version: resourceVersion: Invalid value: {text:?}: {found}"
    ))
}

fn number_problem(error: &std::num::ParseIntError) -> &'static str {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

fn version_match(query: &Query<'_>) -> Option<VersionMatch> {
    match query.find("resourceVersionMatch")? {
        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
        "Exact" => Some(VersionMatch::Exact),
        _ => None,
    }
}

/// What a list may not ask together.
fn check_list(query: &Query<'_>) -> Result<(), Refused> {
    let (wanted, version) = (query.text("resourceVersionMatch"), query.text("resourceVersion"));
    if wanted.is_none() && query.find("sendInitialEvents").is_none() {
        return Ok(());
    }
    let errors = Errors::default();
    let at = errors.at("resourceVersionMatch");
    if let Some(wanted) = wanted {
        if version.is_none() {
            at.forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if query.text("continue").is_some() {
            at.forbidden("resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            at.not_supported(wanted, &["Exact", "NotOlderThan", ""]);
        }
        if wanted == "Exact" && version == Some("0") {
            at.forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if query.find("sendInitialEvents").is_some() {
        errors
            .at("sendInitialEvents")
            .forbidden("sendInitialEvents is forbidden for list");
    }
    refuse_invalid("ListOptions", errors)
}

/// What a watch may not ask together.
fn check_watch(query: &Query<'_>) -> Result<(), Refused> {
    let wanted = query.text("resourceVersionMatch");
    let initial = query.find("sendInitialEvents").is_some();
    let errors = Errors::default();
    let at = errors.at("resourceVersionMatch");
    match (wanted, initial) {
        (Some(_), false) => {
            at.forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        (wanted, true) if wanted != Some("NotOlderThan") => {
            at.forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        _ => {}
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted != "NotOlderThan") {
        at.not_supported(wanted, &["NotOlderThan"]);
    }
    if query.text("continue").is_some() {
        at.forbidden("resourceVersionMatch is forbidden when continue is provided");
    }
    refuse_invalid("ListOptions", errors)
}

/// Turns what was found wrong with an options object into its refusal.
pub(super) fn refuse_invalid(kind: &str, errors: Errors) -> Result<(), Refused> {
    match errors.into_vec() {
        found if found.is_empty() => Ok(()),
        found => Err(Box::new(Status::invalid(
            &Gvk::new("meta.k8s.io", "v1", kind),
            "",
            &found,
        ))),
    }
}

pub(super) fn bad_request(message: &impl std::fmt::Display) -> Refused {
    Box::new(Status::bad_request(message.to_string()))
}

#[cfg(test)]
mod tests;
