//! Acting as someone else, for those who may.

use std::collections::BTreeMap;

use setpoint_api::User;

use crate::authorize::{Attributes, Authorize, Decision, Object};

/// How the name of a service account starts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The group of rules about users' further properties.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Who a caller wants to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user that is wanted, if the caller may be each part of it.
pub fn impersonate(authorizer: &dyn Authorize, caller: &User, wanted: Wanted) -> Option<User> {
    let may = |group, resource, subresource, namespace, name| {
        let object = Object::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        };
        let attributes = Attributes {
            verb: "impersonate",
            object,
        };
        authorizer.authorize(caller, &attributes) == Decision::Allowed
    };
    let named = match service_account(&wanted.name) {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name),
        None => may("", "users", "", "", &wanted.name),
    };
    let allowed = named
        && wanted.groups.iter().all(|group| may("", "groups", "", "", group))
        && (wanted.uid.is_empty() || may(AUTHENTICATION, "uids", "", "", &wanted.uid))
        && wanted.extra.iter().all(|(key, values)| {
            values
                .iter()
                .all(|value| may(AUTHENTICATION, "userextras", key, "", value))
        });
    allowed.then(|| become_user(wanted))
}

fn become_user(wanted: Wanted) -> User {
    let mut groups = wanted.groups;
    if let (true, Some((namespace, _))) = (groups.is_empty(), service_account(&wanted.name)) {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    let known = if wanted.name == User::anonymous().name {
        User::UNAUTHENTICATED
    } else {
        User::AUTHENTICATED
    };
    if !groups.iter().any(|group| group == known) {
        groups.push(known.to_owned());
    }
    User {
        name: wanted.name,
        uid: wanted.uid,
        groups,
        extra: wanted.extra,
    }
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorize::standard;

    fn wanted(name: &str, groups: &[&str]) -> Wanted {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Wanted {
            name: name.to_owned(),
            groups,
            ..Wanted::default()
        }
    }

    #[track_caller]
    fn check(name: &str, groups: &[&str], expected: &[&str]) {
        let admin = User::new("kubernetes-admin", &[User::MASTERS]);
        let user = impersonate(&standard(), &admin, wanted(name, groups)).unwrap();
        assert_eq!(user, User::new(name, expected));
    }

    #[test]
    fn an_administrator_may_be_anyone() {
        check("alice", &[], &["system:authenticated"]);
        check("alice", &["devs"], &["devs", "system:authenticated"]);
        check("system:anonymous", &[], &["system:unauthenticated"]);
    }

    #[test]
    fn a_service_account_is_in_its_groups() {
        check(
            "system:serviceaccount:ns1:sa1",
            &[],
            &[
                "system:serviceaccounts",
                "system:serviceaccounts:ns1",
                "system:authenticated",
            ],
        );
    }

    #[test]
    fn others_may_be_no_one_else() {
        let alice = User::new("alice", &[User::AUTHENTICATED]);
        assert_eq!(impersonate(&standard(), &alice, wanted("bob", &[])), None);
        assert_eq!(
            impersonate(&standard(), &alice, wanted("alice", &[User::MASTERS])),
            None
        );
    }
}
