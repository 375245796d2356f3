//! [`Rules`]: how the generic verbs treat a kind.
//!
//! A kind starts from [`Rules::DEFAULT`] or [`Rules::VIRTUAL`] and names what differs, each by a function named after the
//! field: `Rules::DEFAULT.name(NameRule::Label).returns_deleted()`.

use setpoint_api::{ApiVerb, ApiVerbs};
use setpoint_schema::{EmptyCollections, fields};

/// How the generic verbs treat a kind.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub resource: ResourceRules,
    pub write: WriteRules,
    pub deletion: DeletionRules,
    pub upstream: UpstreamQuirks,
}

/// The resource as discovery shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceRules {
    pub verbs: ApiVerbs,
    /// Whether objects are stored. Otherwise the resource is virtual: the server computes a response, as for reviews.
    pub stored: bool,
    /// For a kind whose create is an action on another object of the same name: that resource and its subresource.
    pub delegates_to: Option<(&'static str, &'static str)>,
    /// The warning to every caller of a deprecated kind; empty for all others.
    pub deprecation_warning: &'static str,
}

/// Creates and updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteRules {
    pub name: NameRule,
    /// Whether an update of a missing object creates it.
    pub create_on_update: bool,
    /// Whether an update may omit the resource version.
    pub unconditional_update: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub tracks_generation: bool,
    /// Whether the metadata of a new object is validated only if its other fields are valid.
    pub validate_metadata_last: bool,
    /// Whether unknown finalizers without a domain are accepted.
    pub unqualified_finalizers: bool,
    /// The fields besides the status that a write of the main resource never changes, so that its manager does not
    /// own them.
    pub reset_fields: &'static [&'static [&'static str]],
    /// The fields that a status update never changes, so that its manager does not own them.
    pub status_reset_fields: &'static [&'static [&'static str]],
}

/// Deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionRules {
    /// Whether the response to an immediate delete is the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// Whether garbage collection applies to the kind; not to events, which have no dependents.
    pub garbage_collected: bool,
    /// Whether dependents are orphaned if the delete request has no propagation policy.
    pub orphans_dependents: bool,
    /// The warning to a delete request without a propagation policy; empty for none.
    pub warning: &'static str,
}

/// Differences of Kubernetes' responses that follow from how it stores or converts the kind. An empty text means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamQuirks {
    /// The storage version that discovery hashes, if it is not the actual one: Kubernetes stores a new version's
    /// objects in the previous version for one release.
    pub discovery_storage_version: &'static str,
    /// The resource's path in etcd, which Kubernetes' error messages show, if it is not the resource name.
    pub error_storage_path: &'static str,
    /// How Kubernetes encodes the objects in etcd.
    pub etcd_encoding: EtcdEncoding,
    /// The name under which Kubernetes keeps a bitmap of the numbers that are allocated to objects of the kind, if there is
    /// one.
    pub range_allocation: &'static str,
    /// How an empty list is encoded in a field that is always shown.
    pub empty: EmptyCollections,
    /// The resource in NotFound errors, if it differs.
    pub not_found_resource: &'static str,
    /// The error for a field selector with an unsupported label; `{label}` or `{quoted}` is the label.
    pub bad_field_label_message: &'static str,
    /// Annotations that are a field of Kubernetes' internal type, so that its metadata does not have them.
    pub internal_field_annotations: &'static [&'static str],
    /// A validation error that two rules report is two causes of the response, as Kubernetes' server of custom resources
    /// has it. Other kinds list it once.
    pub repeats_causes: bool,
}

/// How Kubernetes encodes the objects of a kind in etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdEncoding {
    /// Protobuf in the storage version. Custom resources, which have no protobuf form, are JSON.
    Protobuf,
    /// Protobuf in another version, which has the same fields: Kubernetes stores a new version's objects in the previous
    /// version for one release.
    ProtobufIn(&'static str),
    /// JSON in the storage version.
    Json,
    /// JSON in another version, to which [`crate::Strategy::convert_to_etcd`] converts.
    JsonIn(&'static str),
}

/// The format of names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS-1123 subdomain, at most 253 bytes.
    Subdomain,
    /// A DNS-1123 label, at most 63 bytes.
    Label,
    /// Any path segment of a URL.
    PathSegment,
    /// A DNS-1035 label, which starts with a letter, at most 63 bytes.
    Service,
    /// An IP address in canonical form.
    Address,
    /// Checked by [`crate::Strategy::validate`].
    Custom,
}

// === impl EtcdEncoding ===

impl EtcdEncoding {
    /// Whether objects are JSON in this version, which is not the storage version.
    pub fn is_json_in(self, version: &str) -> bool {
        matches!(self, EtcdEncoding::JsonIn(own) if own == version)
    }
}

// === impl Rules ===

impl Rules {
    pub const DEFAULT: Self = Self {
        resource: ResourceRules {
            verbs: ApiVerbs::ALL,
            stored: true,
            delegates_to: None,
            deprecation_warning: "",
        },
        write: WriteRules {
            name: NameRule::Subdomain,
            create_on_update: false,
            unconditional_update: true,
            tracks_generation: false,
            validate_metadata_last: false,
            unqualified_finalizers: false,
            reset_fields: &[],
            status_reset_fields: &[&[fields::SPEC]],
        },
        deletion: DeletionRules {
            returns_deleted: false,
            garbage_collected: true,
            orphans_dependents: false,
            warning: "",
        },
        upstream: UpstreamQuirks {
            discovery_storage_version: "",
            error_storage_path: "",
            etcd_encoding: EtcdEncoding::Protobuf,
            range_allocation: "",
            empty: EmptyCollections::AsNull,
            not_found_resource: "",
            bad_field_label_message: "field label not supported: {label}",
            internal_field_annotations: &[],
            repeats_causes: false,
        },
    };

    /// For virtual resources, whose objects are not stored.
    pub const VIRTUAL: Self = {
        let mut rules = Self::DEFAULT.verbs(ApiVerbs::new(&[ApiVerb::Create]));
        rules.resource.stored = false;
        rules
    };

    pub const fn verbs(mut self, verbs: ApiVerbs) -> Self {
        self.resource.verbs = verbs;
        self
    }

    pub const fn delegates_to(mut self, resource: &'static str, subresource: &'static str) -> Self {
        self.resource.delegates_to = Some((resource, subresource));
        self
    }

    pub const fn deprecation_warning(mut self, warning: &'static str) -> Self {
        self.resource.deprecation_warning = warning;
        self
    }

    pub const fn name(mut self, name: NameRule) -> Self {
        self.write.name = name;
        self
    }

    pub const fn create_on_update(mut self) -> Self {
        self.write.create_on_update = true;
        self
    }

    /// An update must have the resource version.
    pub const fn no_unconditional_update(mut self) -> Self {
        self.write.unconditional_update = false;
        self
    }

    pub const fn tracks_generation(mut self) -> Self {
        self.write.tracks_generation = true;
        self
    }

    pub const fn validate_metadata_last(mut self) -> Self {
        self.write.validate_metadata_last = true;
        self
    }

    pub const fn unqualified_finalizers(mut self) -> Self {
        self.write.unqualified_finalizers = true;
        self
    }

    pub const fn reset_fields(mut self, paths: &'static [&'static [&'static str]]) -> Self {
        self.write.reset_fields = paths;
        self
    }

    pub const fn status_reset_fields(mut self, paths: &'static [&'static [&'static str]]) -> Self {
        self.write.status_reset_fields = paths;
        self
    }

    pub const fn returns_deleted(mut self) -> Self {
        self.deletion.returns_deleted = true;
        self
    }

    pub const fn not_garbage_collected(mut self) -> Self {
        self.deletion.garbage_collected = false;
        self
    }

    pub const fn orphans_dependents(mut self) -> Self {
        self.deletion.orphans_dependents = true;
        self
    }

    pub const fn deletion_warning(mut self, warning: &'static str) -> Self {
        self.deletion.warning = warning;
        self
    }

    pub const fn discovery_storage_version(mut self, version: &'static str) -> Self {
        self.upstream.discovery_storage_version = version;
        self
    }

    pub const fn error_storage_path(mut self, path: &'static str) -> Self {
        self.upstream.error_storage_path = path;
        self
    }

    pub const fn etcd_encoding(mut self, encoding: EtcdEncoding) -> Self {
        self.upstream.etcd_encoding = encoding;
        self
    }

    pub const fn range_allocation(mut self, name: &'static str) -> Self {
        self.upstream.range_allocation = name;
        self
    }

    pub const fn empty(mut self, empty: EmptyCollections) -> Self {
        self.upstream.empty = empty;
        self
    }

    pub const fn repeats_causes(mut self) -> Self {
        self.upstream.repeats_causes = true;
        self
    }

    pub const fn not_found_resource(mut self, resource: &'static str) -> Self {
        self.upstream.not_found_resource = resource;
        self
    }

    pub const fn bad_field_label_message(mut self, message: &'static str) -> Self {
        self.upstream.bad_field_label_message = message;
        self
    }

    pub const fn internal_field_annotations(mut self, annotations: &'static [&'static str]) -> Self {
        self.upstream.internal_field_annotations = annotations;
        self
    }
}
