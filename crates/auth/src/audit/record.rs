//! What is told of one request while it goes through the server.

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use setpoint_api::{Status, User};

use super::event::{AuthenticationMetadata, Event, ObjectReference, ResponseStatus, UserInfo};
use super::policy::{Level, Stage, Told};
use crate::authorize::Decision;
use crate::impersonate::Impersonated;

/// What is known of a request when it comes in.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// What the answer's `Audit-Id` says.
    pub audit_id: String,
    /// Path and query as they came.
    pub request_uri: String,
    pub verb: String,
    pub source_ips: Vec<String>,
    pub user_agent: String,
    /// Absent for paths that are no resources.
    pub object: Option<ObjectReference>,
}

/// Follows one request. At each stage it gives the line to be kept, if one is wanted.
#[derive(Debug)]
pub struct Record {
    told: Told,
    event: Event,
}

impl Record {
    /// Begins to follow a request, if the policy wants to hear of it.
    pub fn begin(told: Told, facts: Facts, user: &User, now: Timestamp) -> Option<Self> {
        if told.level == Level::None {
            return None;
        }
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: told.level,
            audit_id: facts.audit_id,
            stage: Stage::RequestReceived,
            request_uri: facts.request_uri,
            verb: facts.verb,
            user: UserInfo::from(user),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: facts.source_ips,
            user_agent: facts.user_agent,
            object_ref: facts.object,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: micros(now),
            stage_timestamp: micros(now),
            annotations: Default::default(),
        };
        Some(Self { told, event })
    }

    pub fn impersonated(&mut self, by: &Impersonated) {
        self.event.impersonated_user = Some(UserInfo::from(&by.user));
        if !by.constraint.is_empty() {
            self.event.authentication_metadata = Some(AuthenticationMetadata {
                impersonation_constraint: by.constraint.to_owned(),
            });
        }
    }

    /// What the authorizers said.
    pub fn decided(&mut self, decision: &Decision) {
        let word = if decision.is_allowed() { "allow" } else { "forbid" };
        self.annotate("authorization.k8s.io/decision", word);
        self.annotate("authorization.k8s.io/reason", &decision.reason().to_string());
    }

    pub fn annotate(&mut self, key: &str, value: &str) {
        self.event.annotations.insert(key.to_owned(), value.to_owned());
    }

    /// The name the object got, where the request did not know it.
    pub fn named(&mut self, name: &str) {
        if let Some(object) = self
            .event
            .object_ref
            .as_mut()
            .filter(|object| object.name.is_empty())
        {
            name.clone_into(&mut object.name);
        }
    }

    /// The document that came in, in JSON. It is kept only where the policy wants it.
    pub fn request_object(&mut self, json: &[u8]) {
        if self.told.level >= Level::Request {
            self.event.request_object = self.raw(json);
        }
    }

    /// The document that goes out, in JSON. It is kept only where the policy wants it.
    pub fn response_object(&mut self, json: &[u8]) {
        if self.told.level >= Level::RequestResponse {
            self.event.response_object = self.raw(json);
        }
    }

    /// What a document says of the object, where the request itself does not.
    pub fn about(&mut self, object: &ObjectReference) {
        let Some(own) = self.event.object_ref.as_mut() else {
            return;
        };
        for (own, said) in [
            (&mut own.name, &object.name),
            (&mut own.namespace, &object.namespace),
            (&mut own.uid, &object.uid),
            (&mut own.resource_version, &object.resource_version),
        ] {
            if own.is_empty() {
                own.clone_from(said);
            }
        }
    }

    /// How it went, unless it is known why it failed.
    pub fn responded(&mut self, code: u16) {
        self.event
            .response_status
            .get_or_insert_with(|| ResponseStatus::code(code));
    }

    /// Whether the document that goes out is wanted.
    pub fn wants_response(&self) -> bool {
        self.told.level >= Level::RequestResponse
    }

    pub fn failed(&mut self, status: &Status) {
        self.event.response_status = Some(ResponseStatus::from(status));
    }

    /// The line for a stage, unless the policy leaves that stage out.
    pub fn line(&mut self, stage: Stage, now: Timestamp) -> Option<String> {
        if self.told.omit_stages.contains(&stage) {
            return None;
        }
        self.event.stage = stage;
        self.event.stage_timestamp = micros(now);
        serde_json::to_string(&self.event).ok()
    }

    fn raw(&self, json: &[u8]) -> Option<Box<RawValue>> {
        if !self.told.omit_managed_fields {
            return serde_json::from_slice(json).ok();
        }
        let mut document: Value = serde_json::from_slice(json).ok()?;
        drop_managed_fields(&mut document);
        serde_json::value::to_raw_value(&document).ok()
    }
}

fn drop_managed_fields(document: &mut Value) {
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    let items = document.get_mut("items").and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(drop_managed_fields);
}

fn micros(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use setpoint_api::GroupResource;

    use super::*;
    use crate::authorize::Reason;

    fn begin(level: Level) -> Option<Record> {
        let told = Told {
            level,
            omit_stages: vec![Stage::RequestReceived],
            omit_managed_fields: true,
        };
        let facts = Facts {
            audit_id: "a1".to_owned(),
            request_uri: "/api/v1/namespaces/default/pods?x=1".to_owned(),
            verb: "create".to_owned(),
            source_ips: vec!["127.0.0.1".to_owned()],
            user_agent: "kubectl".to_owned(),
            object: Some(ObjectReference {
                resource: "pods".to_owned(),
                namespace: "default".to_owned(),
                api_version: "v1".to_owned(),
                ..ObjectReference::default()
            }),
        };
        let user = User::new("alice", &["devs"]);
        Record::begin(told, facts, &user, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    fn complete(record: &mut Record) -> String {
        record
            .line(Stage::ResponseComplete, "2026-01-01T00:00:01.5Z".parse().unwrap())
            .unwrap()
    }

    #[test]
    fn a_line_says_who_what_when_and_how_it_went() {
        let mut record = begin(Level::Metadata).unwrap();
        record.decided(&Decision::Allowed(Reason::from("because")));
        record.request_object(b"{}");
        record.named("web");
        record.responded(201);
        assert_eq!(
            complete(&mut record),
            concat!(
                r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a1","stage":"ResponseComplete","#,
                r#""requestURI":"/api/v1/namespaces/default/pods?x=1","verb":"create","user":{"username":"alice","groups":["devs"]},"#,
                r#""sourceIPs":["127.0.0.1"],"userAgent":"kubectl","objectRef":{"resource":"pods","namespace":"default","name":"web","apiVersion":"v1"},"#,
                r#""responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","#,
                r#""stageTimestamp":"2026-01-01T00:00:01.500000Z","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"because"}}"#,
            )
        );
    }

    #[test]
    fn documents_are_told_where_the_policy_wants_them() {
        let told = |level| {
            let mut record = begin(level).unwrap();
            record.request_object(br#"{"metadata":{"name":"web","managedFields":[]}}"#);
            record.response_object(br#"{"items":[{"metadata":{"managedFields":[]}}]}"#);
            let line: Value = serde_json::from_str(&complete(&mut record)).unwrap();
            (
                line["requestObject"].to_string(),
                line["responseObject"].to_string(),
            )
        };
        let (none, one, two) = (
            "null",
            r#"{"metadata":{"name":"web"}}"#,
            r#"{"items":[{"metadata":{}}]}"#,
        );
        assert_eq!(told(Level::Metadata), (none.to_owned(), none.to_owned()));
        assert_eq!(told(Level::Request), (one.to_owned(), none.to_owned()));
        assert_eq!(told(Level::RequestResponse), (one.to_owned(), two.to_owned()));
    }

    #[test]
    fn omitted_stages_and_levels_give_no_line() {
        assert!(begin(Level::None).is_none());
        let mut record = begin(Level::Metadata).unwrap();
        assert!(
            record
                .line(Stage::RequestReceived, Timestamp::UNIX_EPOCH)
                .is_none()
        );
    }

    #[test]
    fn a_failure_is_told_as_the_caller_was_told() {
        let mut record = begin(Level::Metadata).unwrap();
        record.failed(&Status::not_found(&GroupResource::new("", "pods"), "web"));
        let line: Value = serde_json::from_str(&complete(&mut record)).unwrap();
        assert_eq!(line["responseStatus"]["message"], r#"pods "web" not found"#);
        assert_eq!(line["responseStatus"]["code"], 404);
    }
}
