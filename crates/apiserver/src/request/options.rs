//! Request options from the query (ListOptions, CreateOptions, ...), with Kubernetes' error messages.
//!
//! A value that cannot be parsed is a 400 BadRequest; values that contradict each other are a 422 Invalid of the
//! options object. The order of the checks is upstream's, since only the first error is returned.

use std::time::Duration;

use setpoint_api::field::Errors;
use setpoint_api::options::{
    FieldValidation, GetOptions, ListOptions, PatchType, ResourceVersionMatch, WatchOptions, WriteOptions,
};
use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_api::{ApiVerb, Gvk, ResourceVersion, Status, go_duration};

use super::query::Query;

/// Maximum length of a field manager's name.
const MANAGER_BYTES: usize = 128;

/// An error response, boxed to keep `Result`s small.
pub type StatusError = Box<Status>;

/// Options of a get.
pub fn get(query: &Query<'_>) -> Result<GetOptions, StatusError> {
    Ok(GetOptions {
        resource_version: resource_version(query).map_err(invalid_version_error)?,
    })
}

/// Options of a list.
pub fn list(query: &Query<'_>) -> Result<ListOptions, StatusError> {
    let Numbers { limit, .. } = numbers(query)?;
    let (labels, fields) = selectors(query)?;
    check_list(query)?;
    Ok(ListOptions {
        labels,
        fields,
        limit: u64::try_from(limit).ok().filter(|limit| *limit > 0),
        continue_token: query.text("continue").map(str::to_owned),
        resource_version: resource_version(query)?,
        resource_version_match: version_match(query),
    })
}

/// Options of a watch but its resource version, which is the last to be checked. `default_timeout` applies if the request
/// sets none.
pub fn watch(query: &Query<'_>, default_timeout: Duration) -> Result<WatchOptions, StatusError> {
    let Numbers { timeout, .. } = numbers(query)?;
    let (labels, fields) = selectors(query)?;
    // The paths under /watch/ begin a watch with the options of a list.
    match query.flag(ApiVerb::Watch.as_str()) {
        Some(true) => check_watch(query)?,
        _ => check_list(query)?,
    }
    let timeout = u64::try_from(timeout)
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs);
    Ok(WatchOptions {
        labels,
        fields,
        resource_version: None,
        resource_version_match: version_match(query),
        allow_watch_bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
        send_initial_events: query.flag("sendInitialEvents"),
        timeout: Some(timeout.unwrap_or(default_timeout)),
    })
}

/// The resource version of a watch.
pub fn watch_version(query: &Query<'_>) -> Result<Option<ResourceVersion>, StatusError> {
    resource_version(query).map_err(invalid_version_error)
}

/// Options of a create or update. `kind` is the kind of the options object; the default field manager comes from
/// `agent`, the user agent.
pub fn write(query: &Query<'_>, kind: &str, agent: &str) -> Result<WriteOptions, StatusError> {
    let errors = Errors::default();
    let options = parse_write(query, agent, &errors);
    reject_invalid(kind, errors)?;
    Ok(options)
}

/// Options of a patch.
pub fn patch(query: &Query<'_>, patch_type: PatchType, agent: &str) -> Result<WriteOptions, StatusError> {
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
    let options = parse_write(query, agent, &errors);
    reject_invalid("PatchOptions", errors)?;
    Ok(options)
}

fn parse_write(query: &Query<'_>, agent: &str, errors: &Errors) -> WriteOptions {
    let manager = query.text("fieldManager");
    if let Some(manager) = manager {
        check_manager(manager, &errors.at("fieldManager"));
    }
    WriteOptions {
        dry_run: dry_run(&query.all("dryRun").collect::<Vec<_>>(), errors),
        field_manager: Some(manager.unwrap_or_else(|| default_manager(agent)).to_owned()),
        field_validation: field_validation(query, errors),
        force: query.flag("force").unwrap_or_default(),
        is_derived_manager: manager.is_none(),
        is_explicit_validation: query.text("fieldValidation").is_some(),
        timeout: requested_timeout(query),
    }
}

/// The `timeout` of the request. One that is invalid has been rejected before.
pub(super) fn requested_timeout(query: &Query<'_>) -> Option<Duration> {
    let requested = go_duration::parse(query.text("timeout")?).ok()?;
    (!requested.is_zero()).then_some(requested)
}

/// Parses `dryRun`, which may be repeated and whose only value is `All`.
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

/// The default field manager: the program's name in the user agent, up to the first slash.
fn default_manager(agent: &str) -> &str {
    match agent.split('/').next() {
        None | Some("") => "unknown",
        Some(name) => name,
    }
}

/// Integer options of a list or watch. Both verbs parse both options, the timeout first.
struct Numbers {
    timeout: i64,
    limit: i64,
}

fn numbers(query: &Query<'_>) -> Result<Numbers, StatusError> {
    Ok(Numbers {
        timeout: integer(query, "timeoutSeconds")?.unwrap_or_default(),
        limit: integer(query, "limit")?.unwrap_or_default(),
    })
}

fn selectors(query: &Query<'_>) -> Result<(LabelSelector, FieldSelector), StatusError> {
    let labels = query.text("labelSelector").map(str::parse).transpose();
    let labels: Option<LabelSelector> = labels.map_err(|error| bad_request(&error))?;
    let fields = query.text("fieldSelector").map(str::parse).transpose();
    let fields: Option<FieldSelector> = fields.map_err(|error| bad_request(&error))?;
    Ok((labels.unwrap_or_default(), fields.unwrap_or_default()))
}

/// Parses an integer as strictly as Go does, with the error text of `strconv.ParseInt`.
pub(crate) fn integer(query: &Query<'_>, name: &str) -> Result<Option<i64>, StatusError> {
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

fn resource_version(query: &Query<'_>) -> Result<Option<ResourceVersion>, StatusError> {
    let Some(text) = query.text("resourceVersion") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(version) if !text.starts_with('+') => Ok(Some(version)),
        Ok(_) => Err(bad_resource_version(text, "invalid syntax")),
        Err(error) => Err(bad_resource_version(text, number_problem(&error))),
    }
}

/// An invalid `resourceVersion` of a get or watch is a 500 without a reason and without the prefix of a list's error,
/// as upstream has it.
fn invalid_version_error(error: StatusError) -> StatusError {
    let message = error
        .message
        .trim_start_matches("invalid resource version: ")
        .to_owned();
    Box::new(Status {
        message,
        reason: String::new(),
        code: 500,
        ..*error
    })
}

fn bad_resource_version(text: &str, problem: &str) -> StatusError {
    let cause = format!("strconv.ParseUint: parsing {text:?}: {problem}");
    bad_request(&format!(
        "invalid resource version: resourceVersion: Invalid value: {text:?}: {cause}"
    ))
}

fn number_problem(error: &std::num::ParseIntError) -> &'static str {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

fn version_match(query: &Query<'_>) -> Option<ResourceVersionMatch> {
    match query.find("resourceVersionMatch")? {
        "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
        "Exact" => Some(ResourceVersionMatch::Exact),
        _ => None,
    }
}

/// Checks the combinations of options that a list forbids.
fn check_list(query: &Query<'_>) -> Result<(), StatusError> {
    let (version_match, version) = (query.text("resourceVersionMatch"), query.text("resourceVersion"));
    if version_match.is_none() && query.find("sendInitialEvents").is_none() {
        return Ok(());
    }
    let errors = Errors::default();
    let at = errors.at("resourceVersionMatch");
    if let Some(version_match) = version_match {
        if version.is_none() {
            at.forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if query.text("continue").is_some() {
            at.forbidden("resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(version_match, "Exact" | "NotOlderThan") {
            at.not_supported(version_match, &["Exact", "NotOlderThan", ""]);
        }
        if version_match == "Exact" && version == Some("0") {
            at.forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if query.find("sendInitialEvents").is_some() {
        errors
            .at("sendInitialEvents")
            .forbidden("sendInitialEvents is forbidden for list");
    }
    reject_invalid("ListOptions", errors)
}

/// Checks the combinations of options that a watch forbids.
fn check_watch(query: &Query<'_>) -> Result<(), StatusError> {
    let version_match = query.text("resourceVersionMatch");
    let initial = query.find("sendInitialEvents").is_some();
    let errors = Errors::default();
    let at = errors.at("resourceVersionMatch");
    match (version_match, initial) {
        (Some(_), false) => {
            at.forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        (version_match, true) if version_match != Some("NotOlderThan") => {
            at.forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        _ => {}
    }
    if let Some(version_match) = version_match.filter(|version_match| *version_match != "NotOlderThan") {
        at.not_supported(version_match, &["NotOlderThan"]);
    }
    // A watch from any version has initial events, and with them a match, by default.
    let is_from_any = matches!(query.text("resourceVersion"), None | Some("0"));
    let has_match = version_match.is_some() || !initial && is_from_any;
    if has_match && query.text("continue").is_some() {
        at.forbidden("resourceVersionMatch is forbidden when continue is provided");
    }
    reject_invalid("ListOptions", errors)
}

/// The 422 Invalid error of an options object with errors.
pub(super) fn reject_invalid(kind: &str, errors: Errors) -> Result<(), StatusError> {
    match errors.into_vec() {
        found if found.is_empty() => Ok(()),
        found => Err(Box::new(Status::invalid(
            &Gvk::new("meta.k8s.io", "v1", kind),
            "",
            &found,
        ))),
    }
}

pub(crate) fn bad_request(message: &impl std::fmt::Display) -> StatusError {
    Box::new(Status::bad_request(message.to_string()))
}

#[cfg(test)]
mod tests;
