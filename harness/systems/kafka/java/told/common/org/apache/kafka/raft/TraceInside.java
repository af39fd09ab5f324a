package org.apache.kafka.raft;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** Reads what classes of Kafka keep to themselves. */
public final class TraceInside {
    private TraceInside() {
    }

    /** A field of a class, open to be read and written. */
    public static Field field(Class<?> type, String name) {
        try {
            Field found = type.getDeclaredField(name);
            found.setAccessible(true);
            return found;
        } catch (NoSuchFieldException e) {
            throw new IllegalStateException(e);
        }
    }

    static boolean has(Class<?> type, String name) {
        for (Field each : type.getDeclaredFields()) {
            if (each.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    static Object get(Object of, String name) {
        return get(field(of.getClass(), name), of);
    }

    public static Object get(Field field, Object of) {
        try {
            return field.get(of);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    static void set(Field field, Object of, Object value) {
        try {
            field.set(of, value);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A public method without arguments, to be called often. */
    static MethodHandle reader(Class<?> type, String name, Class<?> answer) {
        try {
            return MethodHandles.publicLookup().findVirtual(type, name, MethodType.methodType(answer))
                .asType(MethodType.methodType(answer, Object.class));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** What a method without arguments answers, of whatever class. */
    public static Object call(Object of, String name) {
        try {
            for (Class<?> type = of.getClass(); type != null; type = type.getSuperclass()) {
                for (Method method : type.getDeclaredMethods()) {
                    if (method.getName().equals(name) && method.getParameterCount() == 0) {
                        method.setAccessible(true);
                        return method.invoke(of);
                    }
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        throw new IllegalStateException(of.getClass() + " has no method " + name);
    }

    /** Make one of a class that has one constructor of so many arguments. */
    @SuppressWarnings("unchecked")
    static <T> T made(Class<?> type, Object... arguments) {
        try {
            for (Constructor<?> each : type.getDeclaredConstructors()) {
                if (each.getParameterCount() == arguments.length) {
                    each.setAccessible(true);
                    return (T) each.newInstance(arguments);
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        throw new IllegalStateException(type + " has no constructor of " + arguments.length + " arguments");
    }
}
