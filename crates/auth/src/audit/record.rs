//! [`Record`]: the audit event of one request while it is handled.

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use setpoint_api::{AuditAnnotation, Status, User};

use super::event::{AuthenticationMetadata, Event, ObjectReference, ResponseStatus, UserInfo};
use super::policy::{Level, RequestAuditConfig, Stage};
use crate::authorize::Decision;
use crate::impersonate::ImpersonatedUser;

/// What is known of a request when it is received.
#[derive(Debug, Clone, Default)]
pub struct RequestMetadata {
    /// The id in the response's `Audit-Id` header.
    pub audit_id: String,
    /// Path and query as received.
    pub request_uri: String,
    pub verb: String,
    pub source_ips: Vec<String>,
    pub user_agent: String,
    /// Absent for non-resource paths.
    pub object: Option<ObjectReference>,
}

/// The audit event of one request. At each stage it formats the line to log, if the policy includes that stage.
#[derive(Debug)]
pub struct Record {
    config: RequestAuditConfig,
    event: Event,
}

impl Record {
    /// Starts the record of a request; `None` if its level is `None`.
    pub fn begin(
        config: RequestAuditConfig,
        request: RequestMetadata,
        user: &User,
        now: Timestamp,
    ) -> Option<Self> {
        if config.level == Level::None {
            return None;
        }
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: config.level,
            audit_id: request.audit_id,
            stage: Stage::RequestReceived,
            request_uri: request.request_uri,
            verb: request.verb,
            user: UserInfo::from(user),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: request.source_ips,
            user_agent: request.user_agent,
            object_ref: request.object,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: micros(now),
            stage_timestamp: micros(now),
            annotations: Default::default(),
        };
        Some(Self { config, event })
    }

    pub fn set_impersonated_user(&mut self, by: &ImpersonatedUser) {
        self.event.impersonated_user = Some(UserInfo::from(&by.user));
        if !by.constraint.is_empty() {
            self.event.authentication_metadata = Some(AuthenticationMetadata {
                impersonation_constraint: by.constraint.to_owned(),
            });
        }
    }

    /// Sets the annotations with the authorizers' decision.
    pub fn set_decision(&mut self, decision: &Decision) {
        let word = if decision.is_allowed() { "allow" } else { "forbid" };
        self.annotate("authorization.k8s.io/decision", word);
        self.annotate("authorization.k8s.io/reason", &decision.reason().to_string());
    }

    pub fn annotate(&mut self, key: &str, value: &str) {
        self.event.annotations.insert(key.to_owned(), value.to_owned());
    }

    /// Adds annotations of other components, such as admission webhooks. Those with content of the request are added only
    /// if the level includes it.
    pub fn add_annotations(&mut self, annotations: &[AuditAnnotation]) {
        let is_logged =
            |one: &&AuditAnnotation| !one.is_request_content || self.config.level >= Level::Request;
        let logged: Vec<&AuditAnnotation> = annotations.iter().filter(is_logged).collect();
        for annotation in logged {
            self.annotate(&annotation.key, &annotation.value);
        }
    }

    /// Sets the name of the created object, if it was not in the URL.
    pub fn set_object_name(&mut self, name: &str) {
        if let Some(object) = self
            .event
            .object_ref
            .as_mut()
            .filter(|object| object.name.is_empty())
        {
            name.clone_into(&mut object.name);
        }
    }

    /// Sets the request body, in JSON, if the level includes it.
    pub fn set_request_object(&mut self, json: &[u8]) {
        if self.config.level >= Level::Request {
            self.event.request_object = self.raw(json);
        }
    }

    /// Sets the response body, in JSON, if the level includes it.
    pub fn set_response_object(&mut self, json: &[u8]) {
        if self.config.level >= Level::RequestResponse {
            self.event.response_object = self.raw(json);
        }
    }

    /// Completes the object reference from a body, where the URL does not specify it.
    pub fn complete_object_ref(&mut self, object: &ObjectReference) {
        let Some(own) = self.event.object_ref.as_mut() else {
            return;
        };
        for (own, value) in [
            (&mut own.name, &object.name),
            (&mut own.namespace, &object.namespace),
            (&mut own.uid, &object.uid),
            (&mut own.resource_version, &object.resource_version),
        ] {
            if own.is_empty() {
                own.clone_from(value);
            }
        }
    }

    /// Sets the response code, unless a failure is set.
    pub fn set_response_code(&mut self, code: u16) {
        self.event
            .response_status
            .get_or_insert_with(|| ResponseStatus::code(code));
    }

    /// Whether the level includes the response body.
    pub fn wants_response(&self) -> bool {
        self.config.level >= Level::RequestResponse
    }

    pub fn set_failure(&mut self, status: &Status) {
        self.event.response_status = Some(ResponseStatus::from(status));
    }

    /// The line for a stage; `None` if the policy omits that stage.
    pub fn stage_line(&mut self, stage: Stage, now: Timestamp) -> Option<String> {
        if self.config.omit_stages.contains(&stage) {
            return None;
        }
        self.event.stage = stage;
        self.event.stage_timestamp = micros(now);
        String::from_utf8(setpoint_api::json::to_vec(&self.event).ok()?).ok()
    }

    fn raw(&self, json: &[u8]) -> Option<Box<RawValue>> {
        if !self.config.omit_managed_fields {
            return serde_json::from_slice(json).ok();
        }
        let mut object: Value = serde_json::from_slice(json).ok()?;
        drop_managed_fields(&mut object);
        serde_json::value::to_raw_value(&object).ok()
    }
}

fn drop_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    let items = object.get_mut("items").and_then(Value::as_array_mut);
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
        let config = RequestAuditConfig {
            level,
            omit_stages: vec![Stage::RequestReceived],
            omit_managed_fields: true,
        };
        let request = RequestMetadata {
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
        Record::begin(config, request, &user, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    fn complete(record: &mut Record) -> String {
        record
            .stage_line(Stage::ResponseComplete, "2026-01-01T00:00:01.5Z".parse().unwrap())
            .unwrap()
    }

    #[test]
    fn a_line_has_user_object_time_and_outcome() {
        let mut record = begin(Level::Metadata).unwrap();
        record.set_decision(&Decision::Allowed(Reason::from("because")));
        record.set_request_object(b"{}");
        record.set_object_name("web");
        record.set_response_code(201);
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
    fn objects_are_logged_at_the_levels_that_include_them() {
        let objects = |level| {
            let mut record = begin(level).unwrap();
            record.set_request_object(br#"{"metadata":{"name":"web","managedFields":[]}}"#);
            record.set_response_object(br#"{"items":[{"metadata":{"managedFields":[]}}]}"#);
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
        assert_eq!(objects(Level::Metadata), (none.to_owned(), none.to_owned()));
        assert_eq!(objects(Level::Request), (one.to_owned(), none.to_owned()));
        assert_eq!(objects(Level::RequestResponse), (one.to_owned(), two.to_owned()));
    }

    #[test]
    fn omitted_stages_and_levels_give_no_line() {
        assert!(begin(Level::None).is_none());
        let mut record = begin(Level::Metadata).unwrap();
        assert!(
            record
                .stage_line(Stage::RequestReceived, Timestamp::UNIX_EPOCH)
                .is_none()
        );
    }

    #[test]
    fn a_failure_is_logged_with_its_status_message() {
        let mut record = begin(Level::Metadata).unwrap();
        record.set_failure(&Status::not_found(&GroupResource::new("", "pods"), "web"));
        let line: Value = serde_json::from_str(&complete(&mut record)).unwrap();
        assert_eq!(line["responseStatus"]["message"], r#"pods "web" not found"#);
        assert_eq!(line["responseStatus"]["code"], 404);
    }
}
