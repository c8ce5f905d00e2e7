"""The files used by the compared kubectl commands."""

from collections.abc import Mapping

_WEB = """\
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: nginx:1
        ports: [{name: http, containerPort: 8080}]
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
"""

_ALL = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: postgres}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: agent}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: rs}
spec:
  replicas: 1
  selector: {matchLabels: {app: rs}}
  template:
    metadata: {labels: {app: rs}}
    spec: {containers: [{name: c, image: rs}]}
---
apiVersion: apps/v1
kind: ControllerRevision
metadata: {name: rev}
revision: 3
data: {a: b}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: lock}
spec: {holderIdentity: me, leaseDurationSeconds: 15}
---
apiVersion: v1
kind: Endpoints
metadata: {name: hand}
subsets:
- addresses: [{ip: 192.0.2.10}, {ip: 192.0.2.11}]
  notReadyAddresses: [{ip: 192.0.2.12}]
  ports: [{name: http, port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hand-1, labels: {kubernetes.io/service-name: hand}}
addressType: IPv4
endpoints:
- addresses: [192.0.2.10]
  conditions: {ready: true}
  zone: zone-a
- addresses: [192.0.2.11]
  conditions: {ready: false}
ports: [{name: http, port: 80, protocol: TCP}]
---
apiVersion: v1
kind: Event
metadata: {name: happened}
involvedObject: {kind: Pod, name: p, namespace: k-describe, apiVersion: v1, uid: "1"}
type: Warning
reason: Failed
message: It did not work.
count: 2
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
source: {component: test}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}, annotations: {note: text}}
spec:
  terminationGracePeriodSeconds: 5
  initContainers: [{name: first, image: busybox, command: [sh, -c, "true"]}]
  containers:
  - name: c
    image: nginx
    ports: [{containerPort: 80, hostPort: 8080}]
    env:
    - {name: A, value: x}
    - {name: S, valueFrom: {secretKeyRef: {name: s, key: k}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1", memory: 128Mi}}
    livenessProbe: {httpGet: {path: /, port: 80}}
    readinessProbe: {tcpSocket: {port: 80}}
    volumeMounts: [{name: config, mountPath: /etc/c}]
  volumes: [{name: config, configMap: {name: settings}}, {name: tmp, emptyDir: {}}]
  tolerations: [{key: k, operator: Exists}]
---
apiVersion: v1
kind: Service
metadata: {name: hand}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec: {type: LoadBalancer, selector: {app: p}, ports: [{port: 443, targetPort: https, protocol: TCP}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red, long: "one\\ntwo\\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {k: value}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
"""

FILES: Mapping[str, str] = {
    "web.yaml": _WEB,
    "web-3.yaml": _WEB.replace("replicas: 2", "replicas: 3"),
    "web-pruned.yaml": _WEB.replace(', {name: B, value: "2"}', "").replace(
        ", labels: {app: web}}\nspec: {sel", "}\nspec: {sel"
    ),
    "web-misspelt.yaml": _WEB.replace("replicas: 2", "replcas: 2"),
    "web-invalid.yaml": _WEB.replace("port: 80,", "port: 800000,").replace(
        "matchLabels: {app: web}", "matchLabels: {app: other}"
    ),
    "web-immutable.yaml": _WEB.replace("matchLabels: {app: web}", "matchLabels: {app: web, x: z}").replace(
        "labels: {app: web}}\n    spec", "labels: {app: web, x: z}}\n    spec"
    ),
    "web.json": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-json"}, "data": {"a": "b"}}',
    "web-conflict.yaml": 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, resourceVersion: "1"}\ndata: {a: z}\n',
    "all.yaml": _ALL,
    "broken.yaml": "a: [b\n",
    "no-kind.yaml": "metadata: {name: a}\n",
    "unknown-kind.yaml": "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n",
    "generated.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\n",
    "values.env": "A=1\nB=2\n",
    "node.yaml": 'apiVersion: v1\nkind: Node\nmetadata: {name: k-node, labels: {disk: ssd}}\nspec: {podCIDR: 10.1.0.0/24}\nstatus: {capacity: {cpu: "4"}, allocatable: {cpu: "4"}}\n',
    "editor": "#!/bin/sh\nsed -i -e 's/color: red/color: blue/' \"$1\"\n",
    "editor-none": "#!/bin/sh\ntrue\n",
    "status.json": '{"status": {"phase": "Running", "podIP": "10.9.0.1", "podIPs": [{"ip": "10.9.0.1"}], "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "c", "ready": true, "restartCount": 1, "image": "nginx", "imageID": "", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}}',
    "kustomization.yaml": "namePrefix: kz-\nresources: [web.json]\n",
}
