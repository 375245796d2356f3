// Tests of the Node client against a server: create, read, update, patch, watch, informer, pagination, conflict, delete.
//
// The server is the one of $KUBECONFIG. Each test is a function and prints one line with its outcome.
import assert from 'node:assert/strict';
import * as k8s from '@kubernetes/client-node';

const namespace = 'node';
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);

const configMap = (name, data = {}, labels = {}) => ({ metadata: { name, labels }, data });

async function expectStatus(code, call) {
  try {
    await call();
  } catch (error) {
    assert.equal(error.code, code, String(error));
    return error;
  }
  assert.fail(`the call succeeded, expected ${code}`);
}

const mergePatch = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
const jsonPatch = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.JsonPatch);
const strategicPatch = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.StrategicMergePatch);

const tests = {
  async 'objects are created, read, updated and deleted'() {
    const name = 'crud';
    await core.createNamespacedConfigMap({ namespace, body: configMap(name, { a: '1' }) });
    const read = await core.readNamespacedConfigMap({ namespace, name });
    read.data.b = '2';
    await core.replaceNamespacedConfigMap({ namespace, name, body: read });
    assert.deepEqual((await core.readNamespacedConfigMap({ namespace, name })).data, { a: '1', b: '2' });
    await core.deleteNamespacedConfigMap({ namespace, name });
    await expectStatus(404, () => core.readNamespacedConfigMap({ namespace, name }));
  },

  async 'an object is patched with three patch types'() {
    const name = 'patched';
    await core.createNamespacedConfigMap({ namespace, body: configMap(name, { a: '1' }) });
    await core.patchNamespacedConfigMap({ namespace, name, body: { data: { b: '2' } } }, mergePatch);
    await core.patchNamespacedConfigMap({ namespace, name, body: [{ op: 'remove', path: '/data/a' }] }, jsonPatch);
    await core.patchNamespacedConfigMap({ namespace, name, body: { data: { c: '3' } } }, strategicPatch);
    assert.deepEqual((await core.readNamespacedConfigMap({ namespace, name })).data, { b: '2', c: '3' });
  },

  async 'the second of two writers gets a conflict'() {
    const name = 'contested';
    await core.createNamespacedConfigMap({ namespace, body: configMap(name, { a: '1' }) });
    const one = await core.readNamespacedConfigMap({ namespace, name });
    const other = await core.readNamespacedConfigMap({ namespace, name });
    one.data.a = 'one';
    await core.replaceNamespacedConfigMap({ namespace, name, body: one });
    other.data.a = 'other';
    await expectStatus(409, () => core.replaceNamespacedConfigMap({ namespace, name, body: other }));
  },

  async 'a list is paginated'() {
    for (let number = 0; number < 5; number += 1) {
      await core.createNamespacedConfigMap({ namespace, body: configMap(`page-${number}`, {}, { of: 'pages' }) });
    }
    const names = [];
    let _continue;
    do {
      const page = await core.listNamespacedConfigMap({ namespace, labelSelector: 'of=pages', limit: 2, _continue });
      names.push(...page.items.map((item) => item.metadata.name));
      _continue = page.metadata._continue;
    } while (_continue);
    assert.deepEqual(names, [0, 1, 2, 3, 4].map((number) => `page-${number}`));
  },

  async 'a watch delivers every change'() {
    const name = 'watched';
    const start = (await core.listNamespacedConfigMap({ namespace })).metadata.resourceVersion;
    const seen = [];
    const watch = new k8s.Watch(config);
    const query = { resourceVersion: start, fieldSelector: `metadata.name=${name}` };
    const { promise: done, resolve, reject } = Promise.withResolvers?.() ?? deferred();
    const request = await watch.watch(
      `/api/v1/namespaces/${namespace}/configmaps`,
      query,
      (type) => {
        seen.push(type);
        if (type === 'DELETED') resolve();
      },
      (error) => reject(error ?? new Error('the watch ended early')),
    );
    await core.createNamespacedConfigMap({ namespace, body: configMap(name) });
    await core.patchNamespacedConfigMap({ namespace, name, body: { data: { a: '2' } } }, mergePatch);
    await core.deleteNamespacedConfigMap({ namespace, name });
    await done;
    request.abort();
    assert.deepEqual(seen, ['ADDED', 'MODIFIED', 'DELETED']);
  },

  async 'an informer delivers the existing objects and then the changes'() {
    await core.createNamespacedConfigMap({ namespace, body: configMap('informed-0', {}, { of: 'informer' }) });
    const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: 'of=informer' });
    const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list, 'of=informer');
    const { promise: done, resolve, reject } = deferred();
    const seen = [];
    informer.on('add', (object) => {
      seen.push(object.metadata.name);
      if (object.metadata.name === 'informed-1') resolve();
    });
    informer.on('error', reject);
    await informer.start();
    await core.createNamespacedConfigMap({ namespace, body: configMap('informed-1', {}, { of: 'informer' }) });
    await done;
    await informer.stop();
    assert.deepEqual(seen, ['informed-0', 'informed-1']);
  },

  async 'the generic client creates, reads and deletes an object of any kind'() {
    const objects = k8s.KubernetesObjectApi.makeApiClient(config);
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'any', namespace }, data: { a: '1' } };
    await objects.create(object);
    const read = await objects.read(object);
    assert.equal(read.data.a, '1');
    await objects.delete(object);
  },

  async 'a server-side apply owns its fields'() {
    const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied' }, data: { a: '1' } };
    const options = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply);
    const applied = await core.patchNamespacedConfigMap({ namespace, name: 'applied', body, fieldManager: 'node' }, options);
    assert.equal(applied.metadata.managedFields[0].manager, 'node');
  },
};

function deferred() {
  let resolve;
  let reject;
  const promise = new Promise((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

async function main() {
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  let failed = 0;
  for (const [name, run] of Object.entries(tests)) {
    try {
      await run();
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack ?? error}`);
    }
  }
  console.log(`node: ${Object.keys(tests).length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

await main();
