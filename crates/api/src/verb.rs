//! The verbs of requests: [`ApiVerb`] on resources, [`HttpVerb`] on other paths.
//!
//! RBAC rules, audit policies and access reviews name verbs as text and know more of them (`impersonate`, `bind`,
//! `escalate`, `*`): there a verb stays a string. Code that means one of the verbs below uses the enum; this file alone
//! spells them.
//!
//! The terms follow <https://kubernetes.io/docs/reference/access-authn-authz/authorization/>.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A verb on a resource, in the alphabetical order in which discovery lists them.
///
/// [`Verb`](crate::Verb) is the same verb with the options and the payload of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiVerb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

/// A verb on a non-resource path, or a method in an OpenAPI path: the HTTP method in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpVerb {
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
}

/// The verbs that a resource or a subresource supports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ApiVerbs(u8);

/// A text that is not one of the verbs on resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownVerb;

// === impl ApiVerb ===

impl ApiVerb {
    /// All verbs, in order: `ALL[verb as usize]` is the verb.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    /// The verb as RBAC rules, discovery, audit events and metrics spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    /// The HTTP method of such a request.
    pub const fn http_verb(self) -> HttpVerb {
        match self {
            Self::Create => HttpVerb::Post,
            Self::Delete | Self::DeleteCollection => HttpVerb::Delete,
            Self::Get | Self::List | Self::Watch => HttpVerb::Get,
            Self::Patch => HttpVerb::Patch,
            Self::Update => HttpVerb::Put,
        }
    }

    /// Whether requests with this verb only read.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl FromStr for ApiVerb {
    type Err = UnknownVerb;

    fn from_str(text: &str) -> Result<Self, UnknownVerb> {
        let verb = Self::ALL.into_iter().find(|verb| verb.as_str() == text);
        verb.ok_or(UnknownVerb)
    }
}

impl fmt::Display for ApiVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ApiVerb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl AsRef<str> for ApiVerb {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<ApiVerb> for &'static str {
    fn from(verb: ApiVerb) -> Self {
        verb.as_str()
    }
}

impl PartialEq<str> for ApiVerb {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == text
    }
}

impl PartialEq<&str> for ApiVerb {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == *text
    }
}

impl PartialEq<ApiVerb> for &str {
    fn eq(&self, verb: &ApiVerb) -> bool {
        *self == verb.as_str()
    }
}

// === impl UnknownVerb ===

impl fmt::Display for UnknownVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an API verb")
    }
}

impl std::error::Error for UnknownVerb {}

// === impl HttpVerb ===

impl HttpVerb {
    /// The verb as RBAC rules, audit events and OpenAPI spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Get => "get",
            Self::Head => "head",
            Self::Options => "options",
            Self::Patch => "patch",
            Self::Post => "post",
            Self::Put => "put",
        }
    }
}

impl fmt::Display for HttpVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq<HttpVerb> for &str {
    fn eq(&self, verb: &HttpVerb) -> bool {
        *self == verb.as_str()
    }
}

// === impl ApiVerbs ===

impl ApiVerbs {
    pub const ALL: Self = Self::new(&ApiVerb::ALL);

    pub const fn new(verbs: &[ApiVerb]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < verbs.len() {
            bits |= 1 << verbs[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// The same set without this verb.
    #[must_use]
    pub const fn without(self, verb: ApiVerb) -> Self {
        Self(self.0 & !(1 << verb as u8))
    }

    pub const fn contains(self, verb: ApiVerb) -> bool {
        self.0 & (1 << verb as u8) != 0
    }

    /// The verbs in alphabetical order.
    pub fn iter(self) -> impl Iterator<Item = ApiVerb> {
        ApiVerb::ALL.into_iter().filter(move |verb| self.contains(*verb))
    }
}

impl fmt::Debug for ApiVerbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for ApiVerbs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_parsed_from_its_text_and_stands_at_its_index() {
        for (index, verb) in ApiVerb::ALL.into_iter().enumerate() {
            assert_eq!(verb.as_str().parse(), Ok(verb));
            assert_eq!(verb as usize, index);
        }
    }

    #[test]
    fn a_verb_that_only_rbac_knows_is_unknown() {
        for text in ["", "*", "GET", "impersonate", "post"] {
            assert_eq!(text.parse::<ApiVerb>(), Err(UnknownVerb), "{text}");
        }
    }

    #[test]
    fn a_set_lists_its_verbs_in_alphabetical_order() {
        let verbs = ApiVerbs::new(&[ApiVerb::Watch, ApiVerb::Get, ApiVerb::Create]);
        let texts: Vec<&str> = verbs.iter().map(ApiVerb::as_str).collect();
        assert_eq!(texts, ["create", "get", "watch"]);
        assert!(verbs.contains(ApiVerb::Get) && !verbs.contains(ApiVerb::List));
        assert_eq!(ApiVerbs::ALL.iter().count(), 8);
    }
}
