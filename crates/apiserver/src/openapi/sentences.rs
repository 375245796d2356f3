//! Descriptions of operations and parameters.

use setpoint_api::ApiVerb;

/// The description of an operation on a kind, or on a subresource of it.
pub(super) fn of_operation(verb: ApiVerb, kind: &str, subresource: &str) -> String {
    let object = match subresource {
        "" => format!("an object of kind {kind}"),
        subresource => format!("the {subresource} of an object of kind {kind}"),
    };
    match verb {
        ApiVerb::Get => format!("Reads {object}."),
        ApiVerb::Create => format!("Creates {object}."),
        ApiVerb::Update => format!("Replaces {object}."),
        ApiVerb::Patch => format!("Changes parts of {object}."),
        ApiVerb::Delete => format!("Deletes {object}."),
        ApiVerb::DeleteCollection => format!("Deletes the objects of kind {kind} that the selectors match."),
        ApiVerb::List => {
            format!("Lists objects of kind {kind}, or watches them if the parameter watch is set.")
        }
        ApiVerb::Watch => format!("Watches {kind}. Deprecated: lists take a parameter watch."),
    }
}

/// The description of a parameter that several operations have.
pub(super) fn of_parameter(name: &str) -> Option<&'static str> {
    let mut parameters = PARAMETERS.iter();
    parameters
        .find(|(parameter, _)| *parameter == name)
        .map(|(_, description)| *description)
}

/// Parameters and their descriptions.
const PARAMETERS: &[(&str, &str)] = &[
    (
        "allowWatchBookmarks",
        "Whether a watch may send bookmarks: events that contain nothing but a newer resource version. The server \
         decides when it sends them. Lists ignore it.",
    ),
    (
        "continue",
        "The token of the previous page of a list, to get the next one. All other parameters must be the same. After \
         some minutes the server responds with 410: then the client lists again, or continues with the token of that \
         response, at a newer state.",
    ),
    (
        "dryRun",
        "If set to All, the request is processed in full, and nothing is stored.",
    ),
    (
        "fieldManager",
        "The name of the client that makes the change, recorded in managedFields. At most 128 printable characters. \
         Apply requires it; else it defaults to the start of the user agent.",
    ),
    (
        "fieldSelector",
        "A selector by fields: it restricts the list of returned objects. The default is all.",
    ),
    (
        "fieldValidation",
        "What happens to unknown and duplicate fields of the body: Ignore drops them, Warn (the default) drops them \
         and returns warnings, Strict rejects the request.",
    ),
    (
        "force",
        "Whether apply takes over fields of other managers. Only for apply patches.",
    ),
    (
        "gracePeriodSeconds",
        "Seconds until the object is deleted, at least 0. Zero deletes at once. The default is that of the kind.",
    ),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "Deletes an object that can no longer be read from the store, without finalizers or preconditions. \
         What the object owned may be left over; it takes a permission of its own.",
    ),
    (
        "labelSelector",
        "A selector by labels: it restricts which objects are returned. The default is all.",
    ),
    (
        "limit",
        "The greatest number of objects in the response. If there are more, the list has a continue token. Watches \
         ignore it.",
    ),
    ("name", "Name of the object."),
    (
        "namespace",
        "Namespace of the object: the scope of its name and of permissions.",
    ),
    (
        "orphanDependents",
        "Deprecated: propagationPolicy replaces it. Whether dependents stay as orphans.",
    ),
    ("path", "The rest of the URL, for the proxied server."),
    (
        "pretty",
        "If true, the response is indented. The default is false, but for browsers, curl and wget, which get it \
         indented.",
    ),
    (
        "propagationPolicy",
        "What happens to the dependents of the object: Orphan keeps them, Background deletes them afterwards, \
         Foreground deletes them first. The default depends on the kind and the finalizers of the object.",
    ),
    (
        "resourceVersion",
        "The resource version that the response must be at, or newer than: see resourceVersionMatch. Unset, a list \
         is the newest state; a watch with it begins there.",
    ),
    (
        "resourceVersionMatch",
        "How resourceVersion is applied to a list: Exact or NotOlderThan. It requires resourceVersion.",
    ),
    (
        "sendInitialEvents",
        "Whether a watch begins with the existing objects as added, and a bookmark with the annotation \
         k8s.io/initial-events-end after them. It requires resourceVersionMatch=NotOlderThan.",
    ),
    (
        "timeoutSeconds",
        "Seconds after which the server ends a list or a watch.",
    ),
    (
        ApiVerb::Watch.as_str(),
        "Watch for changes to the described resources: the response is a stream of added, modified and deleted \
         objects, from resourceVersion on.",
    ),
];
