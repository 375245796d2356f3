//! List: the objects of a resource at one revision, all of them or page by page.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{ListOptions, VersionMatch};
use setpoint_api::selector::{FieldSelector, selects};
use setpoint_api::{Gvk, Key, List, ResourceVersion, Response, Status, Stored};
use setpoint_store::Record;

use crate::call::Call;
use crate::page::Page;
use crate::{error, key};

/// How long a read waits for a revision that is not there yet.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lists the objects that the options select.
pub(crate) async fn list(call: &Call<'_>, options: &ListOptions) -> Result<Response, Status> {
    Ok(Response::of(Body::List(collect(call, options).await?)))
}

/// The list itself.
pub(crate) async fn collect(call: &Call<'_>, options: &ListOptions) -> Result<List, Status> {
    check_options(options)?;
    check_fields(call, &options.fields)?;
    let renamed;
    let options = if options.fields.is_empty() {
        options
    } else {
        renamed = ListOptions {
            fields: options.fields.renamed(|label| call.about().stored_label(label)),
            ..options.clone()
        };
        &renamed
    };
    let page = options
        .continue_token
        .as_deref()
        .map(Page::from_token)
        .transpose()?;
    let exact = match &page {
        Some(page) => page.version,
        None => exact_version(options),
    };
    if let Some(version) = exact {
        return list_at(call, options, version, page.as_ref());
    }
    match options.resource_version {
        Some(ResourceVersion::ZERO) => {}
        Some(version) if page.is_none() => wait_for(call, version).await?,
        _ => wait_until_fresh(call).await,
    }
    list_now(call, options, page.as_ref())
}

/// A version that must be met exactly, by the caller's word or since pages are to come.
fn exact_version(options: &ListOptions) -> Option<ResourceVersion> {
    let version = options.resource_version?;
    match options.version_match {
        Some(VersionMatch::Exact) => Some(version),
        Some(VersionMatch::NotOlderThan) => None,
        None => (options.limit.is_some() && version != ResourceVersion::ZERO).then_some(version),
    }
}

/// What the cache holds now. A selector that pins the name or the namespace narrows what is looked at.
fn list_now(call: &Call<'_>, options: &ListOptions, page: Option<&Page>) -> Result<List, Status> {
    let snapshot = call.resource.cache.snapshot();
    let fields = &options.fields;
    let pinned = fields.pinned("metadata.namespace").unwrap_or_default();
    let namespace = match call.namespace() {
        "" if call.about().is_namespaced() => pinned,
        own => own,
    };
    let start = Key::new("", &start_of(call, page));
    let cut = match fields.pinned("metadata.name") {
        Some(name) if !namespace.is_empty() || !call.about().is_namespaced() => {
            let found = snapshot.find(&Key::new(namespace, name));
            cut(options, found.into_iter(), |object| Ok(object.clone()))
        }
        _ if namespace.is_empty() => cut(options, snapshot.from(&start), |object| Ok(object.clone())),
        _ => {
            let objects = snapshot.in_namespace_from(namespace, &start);
            cut(options, objects, |object| Ok(object.clone()))
        }
    };
    Ok(cut?.into_list(call, snapshot.version))
}

/// What the store held then, as far back as it remembers.
fn list_at(
    call: &Call<'_>,
    options: &ListOptions,
    version: ResourceVersion,
    page: Option<&Page>,
) -> Result<List, Status> {
    let snapshot = call
        .registry
        .store
        .snapshot_at(key::revision(version))
        .map_err(|failed| expired(failed, page))?;
    let prefix = &call.resource.prefix;
    let start = format!("{prefix}{}", start_of(call, page));
    let end = match call.namespace() {
        "" => key::behind(prefix),
        namespace => key::behind(&format!("{prefix}{namespace}/")),
    };
    let records = snapshot.range((Bound::Included(start.as_bytes()), Bound::Excluded(end.as_bytes())));
    let object = |record: Arc<Record>| call.resource.shared_or_unread(&record);
    Ok(cut(options, records, object)?.into_list(call, version))
}

/// Where a list starts among the keys of its resource.
fn start_of(call: &Call<'_>, page: Option<&Page>) -> String {
    let start = page.map_or("", |page| page.start.as_str());
    match call.namespace() {
        "" => start.to_owned(),
        namespace => format!("{namespace}/{start}"),
    }
}

/// Of a page that is too old, the caller learns how to go on with what is there now.
fn expired(failed: setpoint_store::Error, page: Option<&Page>) -> Status {
    let (setpoint_store::Error::Compacted { .. }, Some(page)) = (&failed, page) else {
        return error::status(failed);
    };
    let fresh = Page {
        version: None,
        start: page.start.clone(),
    };
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.metadata.continue_token = fresh.to_token();
    status
}

/// What a page holds of a longer list.
struct Cut {
    items: Vec<Arc<Stored>>,
    /// How many follow; without selectors exactly, with them only whether any does.
    following: Following,
}

enum Following {
    None,
    Some,
    Exactly(u64),
}

/// Selects from the objects in order, up to the limit. What lies behind the page is counted but not looked at.
fn cut<R>(
    options: &ListOptions,
    mut rest: impl Iterator<Item = R>,
    object: impl Fn(R) -> Result<Arc<Stored>, Status>,
) -> Result<Cut, Status> {
    let limit = limit(options);
    let all = options.labels.is_empty() && options.fields.is_empty();
    let mut items = Vec::new();
    while let Some(next) = rest.next() {
        if all && items.len() == limit {
            let following = Following::Exactly(1 + rest.count() as u64);
            return Ok(Cut { items, following });
        }
        let object = object(next)?;
        if !all && !selects(&options.labels, &options.fields, &object) {
            continue;
        }
        if items.len() == limit {
            return Ok(Cut {
                items,
                following: Following::Some,
            });
        }
        items.push(object);
    }
    Ok(Cut {
        items,
        following: Following::None,
    })
}

/// How many objects the page may hold. Whoever takes whatever is at hand gets all of it.
fn limit(options: &ListOptions) -> usize {
    match options.limit {
        None | Some(0) => usize::MAX,
        _ if options.resource_version == Some(ResourceVersion::ZERO) => usize::MAX,
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
    }
}

impl Cut {
    fn into_list(self, call: &Call<'_>, version: ResourceVersion) -> List {
        let mut list = List {
            items: self.items,
            resource_version: version,
            ..List::default()
        };
        if matches!(self.following, Following::None) {
            return list;
        }
        let last = list.items.last().map(|last| relative_key(call, last.key()));
        list.continue_token = last.map(|last| Page::after(version, &last).to_token());
        if let Following::Exactly(count) = self.following {
            list.remaining = Some(count);
        }
        list
    }
}

/// The key as a page token has it: without what the whole list shares.
fn relative_key(call: &Call<'_>, key: &Key) -> String {
    match call.namespace() {
        "" => key.as_str().to_owned(),
        _ => key.name().to_owned(),
    }
}

/// Waits until the cache has reached what the store has now.
pub(crate) async fn wait_until_fresh(call: &Call<'_>) {
    let now = key::version(call.registry.store.revision());
    call.resource.cache.reached(now).await;
}

/// Waits for a revision that may be yet to come, but not for long.
pub(crate) async fn wait_for(call: &Call<'_>, version: ResourceVersion) -> Result<(), Status> {
    tokio::select! {
        biased;
        () = call.resource.cache.reached(version) => Ok(()),
        () = call.registry.clock.sleep(PATIENCE) => {
            let current = key::version(call.registry.store.revision());
            Err(Status::too_large_resource_version(version, current))
        }
    }
}

/// Refuses selectors on fields that this kind does not select by.
pub(crate) fn check_fields(call: &Call<'_>, fields: &FieldSelector) -> Result<(), Status> {
    for label in fields.fields() {
        call.about().check_field(label).map_err(Status::bad_request)?;
    }
    Ok(())
}

fn check_options(options: &ListOptions) -> Result<(), Status> {
    let errors = Errors::default();
    let at = errors.at("resourceVersionMatch");
    if options.version_match.is_some() {
        if options.resource_version.is_none() {
            at.forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if options.continue_token.is_some() {
            at.forbidden("resourceVersionMatch is forbidden when continue is provided");
        }
    }
    let zero = options.resource_version == Some(ResourceVersion::ZERO);
    if options.version_match == Some(VersionMatch::Exact) && zero {
        at.forbidden(r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#);
    }
    refuse(errors)?;
    if options.continue_token.is_some() && options.resource_version.is_some_and(|_| !zero) {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    Ok(())
}

/// Turns what is wrong with the options into one answer.
pub(crate) fn refuse(errors: Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let subject = Gvk::new("meta.k8s.io", "v1", "ListOptions");
    Err(Status::invalid(&subject, "", &errors.into_vec()))
}
