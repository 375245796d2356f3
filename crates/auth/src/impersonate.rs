//! Acting as someone else, for those who may.
//!
//! There are several ways to be allowed to. The old one needs the right to `impersonate` each part of the user. The
//! others are narrower: they need the right to be such a user and, besides, the right to do this very thing as such a
//! user. They are tried first; the first refusal is what the caller is told.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation` in Kubernetes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use setpoint_api::{Status, User};

use crate::authorize::{Attributes, Authorize, Object, Reason, check, node, refusal_because};
use crate::service_account;

/// The group of rules about users' further properties.
const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_PREFIX: &str = "system:node:";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// From so many checks on, the right to everything is asked for first.
const MANY: usize = 4;

/// Who a caller wants to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user that was wanted, and by which right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonated {
    pub user: User,
    /// The narrow right that allowed it, for the audit log; empty for the old one.
    pub constraint: &'static str,
}

/// A way of being allowed to be someone else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account is the node its pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Any user that is neither node nor service account.
    UserInfo,
    /// The old way.
    Legacy,
}

const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

/// A refusal as the caller is told it.
type Refused = Box<Status>;

/// The user that is wanted, if the caller may be that user for what it asks.
pub fn impersonate(
    authorizer: &dyn Authorize,
    caller: &User,
    wanted: &Wanted,
    asked: &Attributes<'_>,
) -> Result<Impersonated, Refused> {
    if wanted.name.is_empty() {
        return Err(Box::new(without_name(wanted)));
    }
    let mut first = None;
    for mode in MODES.into_iter().filter(|mode| mode.applies(wanted, caller)) {
        match mode.ask(authorizer, caller, wanted, asked) {
            Ok(()) => return Ok(mode.become_user(wanted)),
            Err(refused) => first = first.or(Some(refused)),
        }
    }
    Err(first.expect("the old way applies to everyone"))
}

/// Groups or properties alone are no user.
fn without_name(wanted: &Wanted) -> Status {
    let list = |items: &[String]| {
        let shown: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        format!("[]string{{{}}}", shown.join(", "))
    };
    let groups = match wanted.groups.is_empty() {
        true => "[]string(nil)".to_owned(),
        false => list(&wanted.groups),
    };
    let mut extra = "map[string][]string".to_owned();
    if wanted.extra.is_empty() {
        extra.push_str("(nil)");
    } else {
        let entries = wanted.extra.iter();
        let shown: Vec<String> = entries
            .map(|(key, values)| format!("{key:?}:{}", list(values)))
            .collect();
        let _ = write!(extra, "{{{}}}", shown.join(", "));
    }
    Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:{extra}}} without impersonating a \
         user name",
        wanted.uid
    ))
}

// === impl Mode ===

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// The right to be such a user.
    fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    fn applies(self, wanted: &Wanted, caller: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_name(&wanted.name), service_account::parse(&wanted.name));
        match self {
            Self::AssociatedNode => only_name && node.is_some_and(|node| runs_on(caller, node)),
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    fn ask(
        self,
        authorizer: &dyn Authorize,
        caller: &User,
        wanted: &Wanted,
        asked: &Attributes<'_>,
    ) -> Result<(), Refused> {
        let checks = Checks {
            authorizer,
            caller: &self.seen(caller),
            mode: self,
        };
        if self != Self::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.name(), asked.verb);
            check(
                authorizer,
                checks.caller,
                &Attributes {
                    verb: &verb,
                    ..*asked
                },
            )?;
        }
        checks.name(&wanted.name)?;
        checks.uid(&wanted.uid)?;
        checks.groups(&wanted.groups)?;
        checks.extra(&wanted.extra)
    }

    /// The caller as rules see it: whoever speaks for its own node does so wherever it runs.
    fn seen(self, caller: &User) -> User {
        let mut seen = caller.clone();
        if self == Self::AssociatedNode {
            let keys = caller.extra.keys().cloned().collect();
            seen.extra = BTreeMap::from([(NODE_KEYS.to_owned(), keys)]);
        }
        seen
    }

    fn become_user(self, wanted: &Wanted) -> Impersonated {
        let mut groups = wanted.groups.clone();
        if let (true, Some((namespace, _))) = (groups.is_empty(), service_account::parse(&wanted.name)) {
            groups = service_account::groups(namespace);
        }
        if self != Self::Legacy && node_name(&wanted.name).is_some() {
            groups = vec![node::GROUP.to_owned()];
        }
        let has = |group: &str| groups.iter().any(|own| own == group);
        let missing = match wanted.name == User::anonymous().name {
            true if !has(User::UNAUTHENTICATED) => Some(User::UNAUTHENTICATED),
            false if !has(User::UNAUTHENTICATED) && !has(User::AUTHENTICATED) => Some(User::AUTHENTICATED),
            _ => None,
        };
        groups.extend(missing.map(str::to_owned));
        Impersonated {
            user: User {
                name: wanted.name.clone(),
                uid: wanted.uid.clone(),
                groups,
                extra: wanted.extra.clone(),
            },
            constraint: if self == Self::Legacy { "" } else { self.verb() },
        }
    }
}

fn node_name(user: &str) -> Option<&str> {
    let node = user.strip_prefix(NODE_PREFIX)?;
    service_account::is_subdomain(node).then_some(node)
}

/// Whether the caller is a service account whose pod runs on the node.
fn runs_on(caller: &User, node: &str) -> bool {
    let own = caller.extra.get(NODE_NAME).map(Vec::as_slice);
    service_account::parse(&caller.name).is_some() && matches!(own, Some([own]) if own == node)
}

// === impl Checks ===

/// The questions that are asked for each part of the wanted user.
struct Checks<'a> {
    authorizer: &'a dyn Authorize,
    caller: &'a User,
    mode: Mode,
}

impl Checks<'_> {
    fn name(&self, wanted: &str) -> Result<(), Refused> {
        if let Some((namespace, name)) = service_account::parse(wanted) {
            return self.may(self.object("serviceaccounts", "", namespace, name));
        }
        match (self.mode, node_name(wanted)) {
            (Mode::AssociatedNode, Some(_)) => self.may(self.object("nodes", "", "", "*")),
            (mode, Some(node)) if mode != Mode::Legacy => self.may(self.object("nodes", "", "", node)),
            _ => self.may(self.object("users", "", "", wanted)),
        }
    }

    fn uid(&self, uid: &str) -> Result<(), Refused> {
        match uid {
            "" => Ok(()),
            uid => self.may(further("uids", "", uid)),
        }
    }

    fn groups(&self, groups: &[String]) -> Result<(), Refused> {
        let narrow = self.mode != Mode::Legacy;
        if narrow && groups.iter().any(String::is_empty) {
            return self.refuse(
                self.object("groups", "", "", ""),
                "impersonating the empty string group is not allowed",
            );
        }
        if narrow && groups.iter().any(|group| group == User::MASTERS) {
            return self.refuse(
                self.object("groups", "", "", User::MASTERS),
                "impersonating the system:masters group is not allowed",
            );
        }
        if narrow && groups.len() >= MANY && self.may(self.object("groups", "", "", "*")).is_ok() {
            return Ok(());
        }
        groups
            .iter()
            .try_for_each(|group| self.may(self.object("groups", "", "", group)))
    }

    fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Refused> {
        if self.mode != Mode::Legacy {
            if let Err(why) = check_extra(extra) {
                return self.refuse(further("userextras", "", ""), why);
            }
            let count: usize = extra.values().map(Vec::len).sum();
            let many = extra.len() >= MANY || count >= MANY;
            if many && self.may(further("userextras", "*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.may(further("userextras", key, value))?;
            }
        }
        Ok(())
    }

    /// The old way knows users and groups in the core group, the others among the further properties.
    fn object<'b>(
        &self,
        resource: &'b str,
        subresource: &'b str,
        namespace: &'b str,
        name: &'b str,
    ) -> Object<'b> {
        let group = if self.mode == Mode::Legacy {
            ""
        } else {
            AUTHENTICATION
        };
        Object::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        }
    }

    fn may(&self, object: Object<'_>) -> Result<(), Refused> {
        check(
            self.authorizer,
            self.caller,
            &Attributes::new(self.mode.verb(), object),
        )
    }

    fn refuse(&self, object: Object<'_>, why: &'static str) -> Result<(), Refused> {
        let attributes = Attributes::new(self.mode.verb(), object);
        Err(Box::new(refusal_because(
            self.caller,
            &attributes,
            &Reason::from(why),
        )))
    }
}

fn further<'a>(resource: &'a str, subresource: &'a str, name: &'a str) -> Object<'a> {
    Object::Resource {
        group: AUTHENTICATION,
        resource,
        subresource,
        namespace: "",
        name,
    }
}

fn check_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<(), &'static str> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed");
        }
        if values.is_empty() {
            return Err("impersonating empty values in extra is not allowed");
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
