//! Descriptions of the fields that every object or list has, where their type has none of its own.

pub const API_VERSION: &str = "APIVersion defines the group and the version of the schema that this object follows, \
    such as apps/v1. The server rejects versions that it does not serve.";
pub const KIND: &str = "Kind is the type of this object, in CamelCase. The server may infer it from the URL of the \
    request; it cannot be changed.";
pub const METADATA: &str = "Standard object's metadata: its name and namespace, labels and annotations, and what the \
    server records about the object.";
pub const LIST_METADATA: &str = "Standard list metadata: the resource version of the list, and where the next page \
    begins.";
pub const CREATION_TIMESTAMP: &str = "CreationTimestamp is a timestamp that the server sets when it creates the \
    object, in RFC 3339 form and in UTC. Clients cannot set it.";
