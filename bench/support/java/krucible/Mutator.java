package krucible;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.FieldVisitor;
import net.bytebuddy.jar.asm.Label;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import net.bytebuddy.jar.asm.Type;

/**
 * Mutations of compiled classes: small changes, made by machine, each at one place. "list" prints those of jars,
 * one a line with tabs; "make" writes the class with one of them, which marks when its place is reached; "verify"
 * loads such a class.
 * The operators are those of bench/support/mutations.py, as far as they can be told from bytecode.
 */
public final class Mutator {
    private static final int API = Opcodes.ASM9;
    private static final String MARK = "krucible$reached";
    private static final Map<Integer, Integer> NEGATED = pairs(
        Opcodes.IFEQ, Opcodes.IFNE, Opcodes.IFLT, Opcodes.IFGE, Opcodes.IFGT, Opcodes.IFLE,
        Opcodes.IF_ICMPEQ, Opcodes.IF_ICMPNE, Opcodes.IF_ICMPLT, Opcodes.IF_ICMPGE, Opcodes.IF_ICMPGT, Opcodes.IF_ICMPLE,
        Opcodes.IF_ACMPEQ, Opcodes.IF_ACMPNE, Opcodes.IFNULL, Opcodes.IFNONNULL);
    private static final Map<Integer, Integer> MOVED = pairs(
        Opcodes.IFLT, Opcodes.IFLE, Opcodes.IFGE, Opcodes.IFGT,
        Opcodes.IF_ICMPLT, Opcodes.IF_ICMPLE, Opcodes.IF_ICMPGE, Opcodes.IF_ICMPGT);
    private static final Map<Integer, Integer> COUNTED = pairs(
        Opcodes.IADD, Opcodes.ISUB, Opcodes.LADD, Opcodes.LSUB);
    /** Classes and methods that only tell, count or compare. */
    private static final List<String> TELLING = List.of("Metric", "Logger", "LogContext", "/generated/", "Exception");
    private static final Set<String> UNTOUCHED = Set.of("toString", "hashCode", "equals", "<clinit>", "close", "logPartitionInfo");

    private final String wanted; // the number of the mutation to make, in its class; or null
    private final List<String> found = new ArrayList<>();
    private String name;
    private int count;

    private Mutator(String wanted) {
        this.wanted = wanted;
    }

    private static Map<Integer, Integer> pairs(int... codes) {
        Map<Integer, Integer> all = new HashMap<>();
        for (int i = 0; i < codes.length; i += 2) {
            all.put(codes[i], codes[i + 1]);
            all.put(codes[i + 1], codes[i]);
        }
        return Collections.unmodifiableMap(all);
    }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        if (arguments[0].equals("list")) {
            List<String> prefixes = Arrays.asList(arguments[1].split(","));
            for (String jar : Arrays.asList(arguments).subList(2, arguments.length)) {
                list(Path.of(jar), prefixes);
            }
        } else if (arguments[0].equals("make")) {
            make(Path.of(arguments[1]), arguments[2], arguments[3], Path.of(arguments[4]));
        } else {
            verify(arguments[1].replace('/', '.'), Arrays.asList(arguments).subList(2, arguments.length));
        }
    }

    /** Have the JVM verify a class, and say whether it marks its place. */
    private static void verify(String name, List<String> path) throws IOException, ReflectiveOperationException {
        URL[] places = new URL[path.size()];
        for (int i = 0; i < places.length; i++) {
            places[i] = Path.of(path.get(i)).toUri().toURL();
        }
        try (URLClassLoader loader = new URLClassLoader(places)) {
            System.out.println(Class.forName(name, true, loader).getField(MARK).getBoolean(null));
        }
    }

    private static void list(Path jar, List<String> prefixes) throws IOException {
        try (JarFile file = new JarFile(jar.toFile())) {
            for (JarEntry entry : Collections.list(file.entries())) {
                String each = entry.getName();
                boolean isWanted = each.endsWith(".class") && TELLING.stream().noneMatch(each::contains)
                    && prefixes.stream().anyMatch(prefix -> each.startsWith(prefix) && each.indexOf('/', prefix.length()) < 0);
                if (isWanted) {
                    Mutator mutator = new Mutator(null);
                    mutator.apply(file.getInputStream(entry));
                    mutator.found.forEach(System.out::println);
                }
            }
        }
    }

    private static void make(Path jar, String name, String number, Path folder) throws IOException {
        try (JarFile file = new JarFile(jar.toFile())) {
            byte[] made = new Mutator(number).apply(file.getInputStream(file.getEntry(name + ".class")));
            Path place = folder.resolve(name + ".class");
            Files.createDirectories(place.getParent());
            Files.write(place, made);
        }
    }

    private byte[] apply(InputStream stream) throws IOException {
        try (stream) {
            ClassReader reader = new ClassReader(stream.readAllBytes());
            ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
            reader.accept(new OfClass(writer), 0);
            return writer.toByteArray();
        }
    }

    private final class OfClass extends ClassVisitor {
        private boolean isInterface;

        OfClass(ClassVisitor next) {
            super(API, next);
        }

        @Override
        public void visit(int version, int access, String itsName, String signature, String parent, String[] interfaces) {
            name = itsName;
            isInterface = (access & Opcodes.ACC_INTERFACE) != 0;
            super.visit(version, access, itsName, signature, parent, interfaces);
        }

        @Override
        public MethodVisitor visitMethod(int access, String method, String descriptor, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, method, descriptor, signature, exceptions);
            boolean isLeft = isInterface || UNTOUCHED.contains(method) || (access & (Opcodes.ACC_SYNTHETIC | Opcodes.ACC_BRIDGE)) != 0
                && !method.startsWith("lambda$");
            return isLeft ? next : new OfMethod(next, method, descriptor);
        }

        @Override
        public void visitEnd() {
            if (wanted != null) {
                FieldVisitor field = super.visitField(
                    Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC | Opcodes.ACC_SYNTHETIC, MARK, "Z", null, null);
                field.visitEnd();
            }
            super.visitEnd();
        }
    }

    private final class OfMethod extends MethodVisitor {
        private final String method;
        private final Type result;
        private int line;

        OfMethod(MethodVisitor next, String method, String descriptor) {
            super(API, next);
            this.method = method;
            this.result = Type.getReturnType(descriptor);
        }

        /** Take note of a place, and tell whether it is the one to be changed; then it marks that it is reached. */
        private boolean isWanted(String operator, String text) {
            int number = count++;
            if (wanted == null) {
                found.add(String.join("\t", name, method, "" + line, operator, "" + number, text));
                return false;
            }
            if (!wanted.equals("" + number)) {
                return false;
            }
            super.visitInsn(Opcodes.ICONST_1);
            super.visitFieldInsn(Opcodes.PUTSTATIC, name, MARK, "Z");
            return true;
        }

        @Override
        public void visitLineNumber(int number, Label start) {
            line = number;
            super.visitLineNumber(number, start);
        }

        @Override
        public void visitJumpInsn(int opcode, Label label) {
            int code = opcode;
            if (NEGATED.containsKey(opcode) && isWanted("condition", "turned round")) {
                code = NEGATED.get(opcode);
            }
            if (MOVED.containsKey(opcode) && isWanted("bound", "moved by one")) {
                code = MOVED.get(opcode);
            }
            super.visitJumpInsn(code, label);
        }

        @Override
        public void visitInsn(int opcode) {
            int code = opcode;
            if (COUNTED.containsKey(opcode) && isWanted("arithmetic", "plus and minus exchanged")) {
                code = COUNTED.get(opcode);
            }
            if (opcode == Opcodes.IRETURN && result.equals(Type.BOOLEAN_TYPE) && isWanted("result", "yes and no exchanged")) {
                super.visitInsn(Opcodes.ICONST_1);
                super.visitInsn(Opcodes.IXOR);
            }
            if (opcode == Opcodes.ARETURN && result.getSort() == Type.OBJECT && isOptional(result.getInternalName())
                && isWanted("result", "nothing instead")) {
                super.visitInsn(Opcodes.POP);
                super.visitMethodInsn(Opcodes.INVOKESTATIC, result.getInternalName(), "empty", "()" + result.getDescriptor(), false);
            }
            super.visitInsn(code);
        }

        private static boolean isOptional(String type) {
            return type.startsWith("java/util/Optional");
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String called, String descriptor, boolean isOfInterface) {
            boolean tells = TELLING.stream().anyMatch(owner::contains) || TELLING.stream().anyMatch(called::contains);
            boolean isEffect = Type.getReturnType(descriptor) == Type.VOID_TYPE && !called.equals("<init>") && !tells;
            if (isEffect && isWanted("effect", "no " + owner.substring(owner.lastIndexOf('/') + 1) + "." + called)) {
                Type[] arguments = Type.getArgumentTypes(descriptor);
                for (int i = arguments.length - 1; i >= 0; i--) {
                    super.visitInsn(arguments[i].getSize() == 2 ? Opcodes.POP2 : Opcodes.POP);
                }
                if (opcode != Opcodes.INVOKESTATIC) {
                    super.visitInsn(Opcodes.POP);
                }
                return;
            }
            super.visitMethodInsn(opcode, owner, called, descriptor, isOfInterface);
        }
    }
}
