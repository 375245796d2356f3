//! The vocabulary of the naming rule: words that withhold their noun or their actor, the term to write instead, and the
//! uses that are correct. The glossary in CONTRIBUTING.md is the same list for people.

/// Words of one group, and the terms that replace them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) words: &'static [&'static str],
    pub(super) instead: &'static str,
    /// Whether identifiers and file names are held to it, too. Some words are vague in prose and precise in a name.
    pub(super) in_names: bool,
}

const fn group(words: &'static [&'static str], instead: &'static str) -> Group {
    Group {
        words,
        instead,
        in_names: true,
    }
}

const fn prose(words: &'static [&'static str], instead: &'static str) -> Group {
    Group {
        words,
        instead,
        in_names: false,
    }
}

pub(super) const GROUPS: &[Group] = &[
    group(
        &["told", "tell", "tells", "telling", "hear", "hears", "heard"],
        "notify, report, deliver, log or return",
    ),
    group(
        &["said", "say", "says", "saying"],
        "specify, set or report; a warning, a message or a text",
    ),
    group(
        &["asked", "ask", "asks", "asking", "question", "questions"],
        "request or query",
    ),
    group(
        &["answer", "answers", "answered", "answering"],
        "response, or respond",
    ),
    group(
        &["refusal", "refusals", "refused", "refuse", "refuses", "refusing"],
        "error, or reject",
    ),
    group(&["figure", "figures"], "metric or measurement"),
    group(&["bear", "bears"], "tolerate (a taint), have or carry"),
    group(&["anew"], "again"),
    group(
        &["whoever", "whom", "somebody", "nobody", "someone", "everybody"],
        "the actor: the caller, the handler, the controller, the user",
    ),
    group(
        &[
            "room", "rooms", "house", "door", "doors", "desk", "shop", "convoy",
        ],
        "crate, workspace, interface, queue or pool: the thing itself instead of a metaphor",
    ),
    group(&["overtaken"], "conflict"),
    group(&["companion", "companions"], "side write"),
    group(
        &["place", "places"],
        "path, slot, address, position or index: the one it is",
    ),
    prose(&["document", "documents"], "object, body or tree"),
    prose(
        &["definition", "definitions"],
        "CustomResourceDefinition, CRD or schema",
    ),
];

/// Phrases in which a word of the groups is the right one.
pub(super) const PHRASES: &[&str] = &[
    "room for",
    "in place",
    "take place",
    "takes place",
    "decimal place",
    "decimal places",
    "yaml document",
    "yaml documents",
    "openapi document",
    "openapi documents",
    "discovery document",
    "discovery documents",
    "json document",
    "json documents",
    "openapi definition",
    "openapi definitions",
];

/// Names of types that are participles or figures of speech, whole. Participles that end in -ed or -ing need no row.
pub(super) const TYPES: &[&str] = &[
    "Along", "Behind", "Bell", "Brought", "Carrier", "Children", "Diary", "Fate", "Found", "Given", "Gone",
    "Grave", "Graves", "Harm", "Held", "Judge", "Keeper", "Kept", "Known", "Lane", "Later", "Left", "Life",
    "Made", "Maker", "Moment", "Moments", "News", "Nursery", "Other", "Others", "Part", "Parts", "Portrait",
    "Rider", "Seen", "Sent", "Shown", "Spoke", "Taken", "Teller", "Thing", "Things", "Verdict", "Village",
    "Wishes", "Word", "Words",
];

/// Names of modules and files that do not name their subject.
pub(super) const FILES: &[&str] = &[
    "about", "along", "amounts", "at", "behind", "given", "later", "made", "moments", "other", "others",
    "parts", "second", "stages", "third", "wanted", "words",
];

/// Types that end like a participle and are nouns, or a term of Kubernetes, Rust or HTTP.
pub(super) const NOUNS: &[(&str, &str)] = &[
    ("Binding", "a kind of Kubernetes"),
    ("Encoding", "a noun: the media type of a body"),
    ("Feed", "a noun: the stream from the store to the caches"),
    ("Finding", "a noun: a violation that a rule reports"),
    ("Listing", "a noun: the listing of a directory"),
    (
        "Memoized",
        "a wrapper type, named as Rust names those: `Memoized<T>`",
    ),
    ("Negotiated", "HTTP's term: the outcome of content negotiation"),
    ("Seed", "a noun: of a checksum or a random generator"),
    ("Setting", "a noun: one combination of a benchmark's options"),
    ("Shared", "Rust's usual name for the state behind several handles"),
    (
        "Stored",
        "the object as the store has it: the most used type of `api`, and short for that reason",
    ),
    ("String", "a noun"),
    (
        "Supported",
        "HTTP's term: the media types that content negotiation selects from",
    ),
    ("Timing", "a noun: the durations of a leader election"),
];

/// Where a word is right, and why.
#[derive(Debug)]
pub(super) struct Allowed {
    /// A file, or a folder when it ends with a slash.
    pub(super) path: &'static str,
    /// An identifier or a word of prose, as it stands there; `*` for every word.
    pub(super) word: &'static str,
    #[expect(dead_code, reason = "read by people")]
    pub(super) reason: &'static str,
}

pub(super) const ALLOWED: &[Allowed] = &[
    Allowed {
        path: "crates/",
        word: "ConnectionRefused",
        reason: "`std::io::ErrorKind` has it",
    },
    Allowed {
        path: "crates/",
        word: "block_in_place",
        reason: "a function of tokio",
    },
    Allowed {
        path: "crates/xtask/src/tidy/rules/naming/",
        word: "*",
        reason: "the rule's own table and its planted violations",
    },
];
